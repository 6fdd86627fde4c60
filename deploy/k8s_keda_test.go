package deploy_test

import (
	"slices"
	"strconv"
	"testing"

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
			Type     string            `json:"type"`
			Metadata map[string]string `json:"metadata"`
		} `json:"triggers"`
	} `json:"spec"`
}

// kafkaKeys are those of KEDA's trigger of type kafka that make sense for us.
var kafkaKeys = []string{
	"bootstrapServersFromEnv", "topic", "consumerGroup", "lagThreshold", "offsetResetPolicy", "sasl", "tls",
}

// Every queue is scaled by what its own group has not read yet, and never to more workers than there are partitions.
func TestWorkersScaleByTheirBacklog(t *testing.T) {
	t.Parallel()
	c := built(t, "production")
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
	for name, s := range c.scalers {
		if s.APIVersion != "keda.sh/v1alpha1" || c.deployments[s.Spec.ScaleTargetRef.Name] == nil {
			t.Errorf("%s: %s scales %q", name, s.APIVersion, s.Spec.ScaleTargetRef.Name)
		}
		if s.Spec.MinReplicaCount < 2 || int(s.Spec.MaxReplicaCount) > cfg.Kafka.Partitions || s.Spec.MinReplicaCount > s.Spec.MaxReplicaCount {
			t.Errorf("%s: from %d to %d workers on %d partitions", name, s.Spec.MinReplicaCount, s.Spec.MaxReplicaCount, cfg.Kafka.Partitions)
		}
		for _, trigger := range s.Spec.Triggers {
			got = append(got, group{trigger.Metadata["topic"], trigger.Metadata["consumerGroup"]})
			checkKafkaTrigger(t, trigger.Type, trigger.Metadata, c.environ(t, worker))
		}
	}
	if !slices.Equal(want, got) {
		t.Errorf("scaled by %v, want %v", got, want)
	}
}

func checkKafkaTrigger(t *testing.T, kind string, metadata map[string]string, env map[string]string) {
	t.Helper()
	if kind != "kafka" || metadata["offsetResetPolicy"] != "earliest" {
		t.Errorf("a trigger %s: %v", kind, metadata)
	}
	for key := range metadata {
		if !slices.Contains(kafkaKeys, key) {
			t.Errorf("KEDA's kafka trigger has no %s", key)
		if most := int(s.Spec.MaxReplicaCount); most != cfg.Worker.Replicas {
			t.Errorf("%s: up to %d workers, and worker.replicas is %d", name, most, cfg.Worker.Replicas)
		}
		}
	}
	if n, err := strconv.Atoi(metadata["lagThreshold"]); err != nil || n < 1 {
		t.Errorf("lagThreshold: %q", metadata["lagThreshold"])
	}
	if name := metadata["bootstrapServersFromEnv"]; env[name] == "" {
		t.Errorf("bootstrapServersFromEnv: the worker has no variable %q", name)
	}
}
