package rabbitmq

import (
	"fmt"
	"strconv"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/duetime/duetime/bench/queue"
)

const (
	// oneDelay is that of all jobs that are due one after the other, a multiple of step.
	oneDelay = 3 * time.Second
	// step is what other delays are rounded up to, so that a bulk makes tens of queues instead of one a millisecond.
	step = 100 * time.Millisecond
	// near is how far off due times may lie for a call that hands its jobs over one after the other.
	near = time.Minute
	// A queue is declared again when the last time lies this long back, and lives for twice that after its delay:
	// what was published to it is dead-lettered before it expires, for an expiring queue takes its messages with it.
	renew = 30 * time.Second
)

// perDelay has a waiting queue per delay, made when it is first needed and gone when it is no longer.
//
// That fits services that know a few delays. Jobs made together and due one after the other have each a delay of its
// own: 10,000 of them would be 10,000 durable queues, each a process and files of the broker, which nobody runs. So
// such jobs are handed over as that service would do it, each one as its event happens, with the same delay: in
// Schedule, exactly 3 s ahead. The broker does all the waiting that remains, the handler's lag is the broker's own,
// and Schedule returns when the last job is handed over. Jobs due at the same moment are all handed over at once, each
// with the delay that is left, rounded up: so they come up to 100 ms late, and never early. So do jobs that are due
// more than a minute off, which only stand there.
type perDelay struct {
	mu       sync.Mutex
	declared map[string]time.Time // when each queue was last declared by this process
}

func (*perDelay) declare(*amqp.Channel) error { return nil }

func (*perDelay) ahead(jobs []queue.Job) time.Duration {
	together := jobs[0].Due == jobs[len(jobs)-1].Due
	if together || time.Until(jobs[0].At()) > near {
		return 0
	}
	return oneDelay
}

func (d *perDelay) place(ch *amqp.Channel, left time.Duration) (name, expiration string, err error) {
	delay := roundUp(left, step)
	name = "bench.wait." + strconv.FormatInt(delay.Milliseconds(), 10)
	d.mu.Lock()
	defer d.mu.Unlock()
	if time.Since(d.declared[name]) < renew {
		return name, "", nil
	}
	_, err = ch.QueueDeclare(name, true, false, false, false, amqp.Table{
		"x-message-ttl":             delay.Milliseconds(),
		"x-expires":                 (delay + 2*renew).Milliseconds(),
		"x-dead-letter-exchange":    "",
		"x-dead-letter-routing-key": due,
	})
	if err != nil {
		return "", "", fmt.Errorf("declare %s: %w", name, err)
	}
	d.declared[name] = time.Now()
	return name, "", nil
}

// perMessage has one waiting queue for all messages; each brings its time to live. All are handed over at once.
type perMessage struct{}

const common = "bench.wait"

func (perMessage) declare(ch *amqp.Channel) error {
	_, err := ch.QueueDeclare(common, true, false, false, false, amqp.Table{
		"x-dead-letter-exchange": "", "x-dead-letter-routing-key": due,
	})
	if err != nil {
		return fmt.Errorf("declare %s: %w", common, err)
	}
	return nil
}

func (perMessage) ahead([]queue.Job) time.Duration { return 0 }

func (perMessage) place(_ *amqp.Channel, left time.Duration) (name, expiration string, err error) {
	return common, strconv.FormatInt(roundUp(left, time.Millisecond).Milliseconds(), 10), nil
}

// roundUp keeps a message from coming early.
func roundUp(d, unit time.Duration) time.Duration { return (d + unit - 1) / unit * unit }
