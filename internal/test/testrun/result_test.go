package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// What go test -json prints of packages that end in each way.
const (
	passes = `{"Action":"run","Package":"m/p","Test":"TestA"}
{"Action":"output","Package":"m/p","Test":"TestA","Output":"noise\n"}
{"Action":"pass","Package":"m/p","Test":"TestA","Elapsed":1.5}
{"Action":"skip","Package":"m/p","Test":"TestB","Elapsed":0}
{"Action":"output","Package":"m/p","Output":"ok  \tm/p\t1.6s\n"}
{"Action":"pass","Package":"m/p","Elapsed":1.6}
`
	fails = `{"Action":"output","Package":"m/q","Test":"TestC/part","Output":"    c_test.go:1: got 1\n"}
{"Action":"fail","Package":"m/q","Test":"TestC/part","Elapsed":0.1}
{"Action":"fail","Package":"m/q","Test":"TestC","Elapsed":0.2}
{"Action":"output","Package":"m/q","Output":"FAIL\n"}
{"Action":"output","Package":"m/q","Output":"FAIL\tm/q\t0.2s\n"}
{"Action":"fail","Package":"m/q","Elapsed":0.2}
`
	panics = `{"Action":"output","Package":"m/r","Test":"TestD","Output":"panic: no\n"}
{"Action":"fail","Package":"m/r","Test":"TestD","Elapsed":0.1}
{"Action":"output","Package":"m/r","Output":"FAIL\tm/r\t0.2s\n"}
{"Action":"fail","Package":"m/r","Elapsed":0.2}
`
	hangs = `{"Action":"output","Package":"m/s","Test":"TestE","Output":"goroutine 1\n"}
{"Action":"output","Package":"m/s","Output":"FAIL\tm/s\t0.2s\n"}
{"Action":"fail","Package":"m/s","Elapsed":0.2}
`
	leaks = `{"Action":"pass","Package":"m/t","Test":"TestF","Elapsed":0.1}
{"Action":"output","Package":"m/t","Output":"goroutines left after the tests\n"}
{"Action":"fail","Package":"m/t","Elapsed":0.2}
`
	breaks = `{"Action":"build-output","ImportPath":"m/u","Output":"u.go:1: undefined: x\n"}
{"Action":"fail","Package":"m/u","Elapsed":0,"FailedBuild":"m/u"}
`
)

func TestResult(t *testing.T) {
	t.Parallel()
	l := leg{title: "leg"}
	for name, c := range map[string]struct {
		events   string
		failures []failure
		broken   []string
		shown    string // must be shown
	}{
		"passes":          {passes, nil, nil, "ok  \tm/p\t1.6s\n"},
		"a test fails":    {fails, []failure{{l, "m/q", "TestC"}}, nil, "got 1"},
		"panics":          {panics, []failure{{l, "m/r", ""}}, nil, "panic: no"},
		"hangs":           {hangs, []failure{{l, "m/s", ""}}, nil, "goroutine 1"},
		"leaves a leak":   {leaks, []failure{{l, "m/t", ""}}, nil, "goroutines left"},
		"doesn't compile": {breaks, nil, []string{"m/u"}, "undefined: x"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, shown := newResult(l), &bytes.Buffer{}
			if err := r.read(strings.NewReader(c.events), screen{shown}); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.failures, r.failures, cmp.AllowUnexported(failure{}, leg{})); diff != "" {
				t.Errorf("failures (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(c.broken, r.broken); diff != "" {
				t.Errorf("broken (-want +got):\n%s", diff)
			}
			if !strings.Contains(shown.String(), c.shown) || strings.Contains(shown.String(), "noise") {
				t.Errorf("shown: %q, want %q and nothing of what passed", shown, c.shown)
			}
		})
	}
	r := newResult(l)
	if err := r.read(strings.NewReader(passes), screen{&bytes.Buffer{}}); err != nil {
		t.Fatal(err)
	}
	if len(r.tests) != 2 || len(r.skipped) != 1 {
		t.Errorf("%d tests, %d skipped, want 2 and 1", len(r.tests), len(r.skipped))
	}
}
