package server

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/duetime/duetime/internal/test/pipelinetest" //nolint:depguard // only tests call this package
)

// OwnRocketMQ starts a name server and a broker of RocketMQ for this test alone, out of the jars that bench/install has put
// into the folder lib, with their data in dir, and returns the name server's address. The broker flushes each message
// before it answers; its default is a flush each 500 ms. Its timer wheel has slots of 100 ms, the least that it takes; the
// default is 1 s.
func OwnRocketMQ(t testing.TB, dir, lib string) string {
	t.Helper()
	names := local(freePort(t))
	_, port, _ := strings.Cut(names, ":")
	runRocketMQ(t, dir, lib, "namesrv", "org.apache.rocketmq.namesrv.NamesrvStartup",
		"bindAddress=127.0.0.1", "listenPort="+port)
	store := filepath.Join(dir, "store")
	runRocketMQ(t, dir, lib, "broker", "org.apache.rocketmq.broker.BrokerStartup",
		"namesrvAddr="+names, "registerNameServerPeriod=10000", "brokerName=bench", "brokerIP1=127.0.0.1", "bindAddress=127.0.0.1",
		"listenPort="+strconv.Itoa(freePort(t)), "haListenPort=0", // the second one has no clients
		"storePathRootDir="+store, "storePathCommitLog="+filepath.Join(store, "commitlog"),
		"flushDiskType=SYNC_FLUSH", "timerWheelEnable=true", "timerPrecisionMs=100",
		"waitTimeMillsInSendQueue=10000", // else a broker that is busy for 200 ms refuses messages
	)
	return names
}

// runRocketMQ starts one of the two programs, which say on standard output that they have started.
func runRocketMQ(t testing.TB, dir, lib, name, class string, properties ...string) {
	t.Helper()
	jars, err := filepath.Abs(lib)
	pipelinetest.Must(t, err)
	if _, err := os.Stat(jars); err != nil {
		t.Fatal("the jars of RocketMQ are missing: run bench/install")
	}
	pipelinetest.Must(t, os.MkdirAll(dir, 0o700))
	config := filepath.Join(dir, name+".properties")
	pipelinetest.Must(t, os.WriteFile(config, []byte(strings.Join(properties, "\n")+"\n"), 0o600))
	p := pipelinetest.Run(t, program(t, "/usr/bin/java"), []string{"ROCKETMQ_HOME=" + dir},
		"-Xmx1g", "-Duser.home="+dir, "-Drmq.logback.configurationFile=rmq."+name+".logback.xml",
		"--add-opens=java.base/java.nio=ALL-UNNAMED", "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
		"-cp", filepath.Join(jars, "*"), class, "-c", config)
	await(t, p, "rocketmq's "+name, func() error {
		if !strings.Contains(p.Stdout(), "boot success") {
			return errors.New("no boot success")
		}
		return nil
	})
}
