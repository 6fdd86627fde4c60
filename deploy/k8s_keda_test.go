package deploy_test

import (
	"slices"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/duetime/duetime/internal/stream"
)

// scaledObject has of KEDA's type of this name what we set; its own module brings a whole controller along.
type scaledObject struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Spec struct {
		ScaleTargetRef struct {
			Name string `json:"name"`
		} `json:"scaleTargetRef"`
		PollingInterval int32 `json:"pollingInterval"`
		MinReplicaCount int32 `json:"minReplicaCount"`
		MaxReplicaCount int32 `json:"maxReplicaCount"`
		Advanced        struct {
			HorizontalPodAutoscalerConfig struct {
				Behavior autoscalingv2.HorizontalPodAutoscalerBehavior `json:"behavior"`
			} `json:"horizontalPodAutoscalerConfig"`
		} `json:"advanced"`
		Fallback struct {
			FailureThreshold int32  `json:"failureThreshold"`
			Replicas         int32  `json:"replicas"`
			Behavior         string `json:"behavior"` // static, or currentReplicas…
		} `json:"fallback"`
		Triggers []struct {
			Type              string            `json:"type"`
			Metadata          map[string]string `json:"metadata"`
			AuthenticationRef struct {
				Name string `json:"name"`
			} `json:"authenticationRef"`
		} `json:"triggers"`
	} `json:"spec"`
}

// triggerAuthentication is the same of the type of this name.
type triggerAuthentication struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Spec struct {
		SecretTargetRef []struct {
			Parameter string `json:"parameter"`
			Name      string `json:"name"`
			Key       string `json:"key"`
		} `json:"secretTargetRef"`
	} `json:"spec"`
}

// kafkaKeys are those of KEDA's trigger of type kafka that make sense for us.
var kafkaKeys = []string{
	"bootstrapServersFromEnv", "topic", "consumerGroup", "lagThreshold", "offsetResetPolicy", "sasl", "tls",
}

// Every queue is scaled by what its own group has not read yet, and never to more workers than there are partitions.
func TestWorkersScaleByTheirBacklog(t *testing.T) {
	t.Parallel()
	for _, overlay := range []string{"production", endpoints} {
		t.Run(overlay, func(t *testing.T) {
			t.Parallel()
			checkScaling(t, built(t, overlay))
		})
	}
}

func checkScaling(t *testing.T, c *cluster) {
	t.Helper()
	worker := pod{c.deployments["worker"].Spec.Template, "worker"}
	cfg := c.configOf(t, worker)
	if n := c.deployments["worker"].Spec.Replicas; n != nil {
		t.Errorf("worker has a fixed number of replicas, %d, which each apply would set again", *n)
	}
	type group struct{ topic, group string }
	var want, got []group
	for _, queue := range cfg.Queues {
		topic, name := stream.QueueNames(cfg.Namespace, queue)
		want = append(want, group{topic, name})
	}
	scaled := map[string]string{} // by Deployment: its ScaledObject; KEDA refuses a second one
	for name, s := range c.scalers {
		if other, twice := scaled[s.Spec.ScaleTargetRef.Name]; twice {
			t.Errorf("%s and %s scale one Deployment", name, other)
		}
		scaled[s.Spec.ScaleTargetRef.Name] = name
		if s.APIVersion != "keda.sh/v1alpha1" || c.deployments[s.Spec.ScaleTargetRef.Name] == nil {
			t.Errorf("%s: %s scales %q", name, s.APIVersion, s.Spec.ScaleTargetRef.Name)
		}
		if s.Spec.MinReplicaCount < 2 || int(s.Spec.MaxReplicaCount) > cfg.Kafka.Partitions || s.Spec.MinReplicaCount > s.Spec.MaxReplicaCount {
			t.Errorf("%s: from %d to %d workers on %d partitions", name, s.Spec.MinReplicaCount, s.Spec.MaxReplicaCount, cfg.Kafka.Partitions)
		}
		if most := int(s.Spec.MaxReplicaCount); most != cfg.Worker.Replicas {
			t.Errorf("%s: up to %d workers, and worker.replicas is %d", name, most, cfg.Worker.Replicas)
		}
		for _, trigger := range s.Spec.Triggers {
			got = append(got, group{trigger.Metadata["topic"], trigger.Metadata["consumerGroup"]})
			checkKafkaTrigger(t, trigger.Type, trigger.Metadata, c.environ(t, worker))
			checkScalerUser(t, c, c.scalerUsers[trigger.AuthenticationRef.Name])
		}
	}
	if !slices.Equal(want, got) {
		t.Errorf("scaled by %v, want %v", got, want)
	}
}

func checkKafkaTrigger(t *testing.T, kind string, metadata map[string]string, env map[string]string) {
	t.Helper()
	if kind != "kafka" || metadata["offsetResetPolicy"] != "earliest" || metadata["sasl"] != "scram_sha512" || metadata["tls"] != "enable" {
		t.Errorf("a trigger %s: %v", kind, metadata)
	}
	for key := range metadata {
		if !slices.Contains(kafkaKeys, key) {
			t.Errorf("KEDA's kafka trigger has no %s", key)
		}
	}
	if n, err := strconv.Atoi(metadata["lagThreshold"]); err != nil || n < 1 {
		t.Errorf("lagThreshold: %q", metadata["lagThreshold"])
	}
	if name := metadata["bootstrapServersFromEnv"]; env[name] == "" {
		t.Errorf("bootstrapServersFromEnv: the worker has no variable %q", name)
	}
}

// checkScalerUser wants KEDA to sign in as the workers do, whose group it asks for.
func checkScalerUser(t *testing.T, c *cluster, a *triggerAuthentication) {
	t.Helper()
	if a == nil {
		t.Fatal("a trigger without an account, where Kafka answers no stranger")
	}
	got := map[string]string{}
	for _, ref := range a.Spec.SecretTargetRef {
		if got[ref.Parameter] = ref.Name + " " + ref.Key; ref.Name != tlsSecret && c.secrets[ref.Name].StringData[ref.Key] == "" {
			t.Errorf("%s: Secret %s has no key %s", a.Name, ref.Name, ref.Key)
		}
	}
	want := map[string]string{
		"username": "worker DUETIME_KAFKA__SASL__USERNAME", "password": "worker DUETIME_KAFKA__SASL__PASSWORD", "ca": tlsSecret + " ca.crt",
	}
	if diff := cmp.Diff(want, got); diff != "" || a.APIVersion != "keda.sh/v1alpha1" {
		t.Errorf("%s %s (-want +got):\n%s", a.APIVersion, a.Name, diff)
	}
}
