package deploy_test

import (
	"errors"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"sigs.k8s.io/json"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"

	"github.com/duetime/duetime/internal/test/pipelinetest"
)

const namespace = "duetime"

var overlays = []string{"small", "production"}

// endpoints is an overlay whose workers deliver tasks by HTTP.
const endpoints = "../../testdata/endpoints"

// cluster is what one overlay makes, by name.
type cluster struct {
	namespaces  map[string]*corev1.Namespace
	accounts    map[string]*corev1.ServiceAccount
	configs     map[string]*corev1.ConfigMap
	services    map[string]*corev1.Service
	deployments map[string]*appsv1.Deployment
	jobs        map[string]*batchv1.Job
	budgets     map[string]*policyv1.PodDisruptionBudget
	policies    map[string]*networkingv1.NetworkPolicy
	scalers     map[string]*scaledObject
	scalerUsers map[string]*triggerAuthentication
	secrets     map[string]*corev1.Secret // of k8s/secrets.yaml, which no overlay makes
}

// pod is a template of the overlay, under the name of its Deployment or Job.
type pod struct {
	corev1.PodTemplateSpec

	name string
}

func (p pod) container() *corev1.Container { return &p.Spec.Containers[0] }

func (p pod) matches(s labels.Selector) bool { return s.Matches(labels.Set(p.Labels)) }

// pods returns all templates.
func (c *cluster) pods() []pod {
	var all []pod
	for name, d := range c.deployments {
		all = append(all, pod{d.Spec.Template, name})
	}
	for name, j := range c.jobs {
		all = append(all, pod{j.Spec.Template, name})
	}
	return all
}

// each runs a test on every overlay.
func each(t *testing.T, check func(t *testing.T, c *cluster)) {
	t.Helper()
	t.Parallel()
	for _, name := range overlays {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			check(t, built(t, name))
		})
	}
}

// built runs kustomize on an overlay and reads each object into its Kubernetes type. An unknown kind, an unknown field and
// a field that stands twice fail the test.
func built(t *testing.T, overlay string) *cluster {
	t.Helper()
	made, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), "k8s/overlays/"+overlay)
	pipelinetest.Must(t, err)
	c := &cluster{
		map[string]*corev1.Namespace{},
		map[string]*corev1.ServiceAccount{},
		map[string]*corev1.ConfigMap{},
		map[string]*corev1.Service{},
		map[string]*appsv1.Deployment{},
		map[string]*batchv1.Job{},
		map[string]*policyv1.PodDisruptionBudget{},
		map[string]*networkingv1.NetworkPolicy{},
		map[string]*scaledObject{},
		map[string]*triggerAuthentication{},
		readSecrets(t, exampleSecrets(t)),
	}
	decoder := strictDecoder(t)
	for _, r := range made.Resources() {
		text, err := r.AsYAML()
		pipelinetest.Must(t, err)
		if r.GetKind() != "Namespace" && r.GetNamespace() != namespace {
			t.Errorf("%s is in namespace %q", r.CurId(), r.GetNamespace())
		}
		switch r.GetKind() {
		case "ScaledObject":
			s := new(scaledObject)
			pipelinetest.Must(t, unmarshalStrict(text, s))
			c.scalers[s.Name] = s
			continue
		case "TriggerAuthentication":
			a := new(triggerAuthentication)
			pipelinetest.Must(t, unmarshalStrict(text, a))
			c.scalerUsers[a.Name] = a
			continue
		}
		object, _, err := decoder.Decode(text, nil, nil)
		if err != nil {
			t.Fatalf("%s: %v", r.CurId(), err)
		}
		c.add(t, object)
	}
	return c
}

// unmarshalStrict is strict in the letters' case too.
func unmarshalStrict(text []byte, into any) error {
	asJSON, err := yaml.YAMLToJSONStrict(text)
	if err != nil {
		return err
	}
	strict, err := json.UnmarshalStrict(asJSON, into)
	return errors.Join(append(strict, err)...)
}

// strictDecoder knows the API groups that a cluster has by itself.
func strictDecoder(t *testing.T) runtime.Decoder {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		corev1.AddToScheme, appsv1.AddToScheme, batchv1.AddToScheme, policyv1.AddToScheme, networkingv1.AddToScheme,
	} {
		pipelinetest.Must(t, add(scheme))
	}
	return serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()
}

// add files an object by its name. What we don't mean to deploy, such as a Secret, fails the test.
func (c *cluster) add(t *testing.T, object runtime.Object) {
	t.Helper()
	switch o := object.(type) {
	case *corev1.Namespace:
		c.namespaces[o.Name] = o
	case *corev1.ServiceAccount:
		c.accounts[o.Name] = o
	case *corev1.ConfigMap:
		c.configs[o.Name] = o
	case *corev1.Service:
		c.services[o.Name] = o
	case *appsv1.Deployment:
		c.deployments[o.Name] = o
	case *batchv1.Job:
		c.jobs[o.Name] = o
	case *policyv1.PodDisruptionBudget:
		c.budgets[o.Name] = o
	case *networkingv1.NetworkPolicy:
		c.policies[o.Name] = o
	default:
		t.Errorf("a %T", object)
	}
}
