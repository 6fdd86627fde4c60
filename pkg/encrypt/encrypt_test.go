package encrypt_test

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/group"
	"github.com/duetime/duetime/pkg/encrypt"
	"github.com/duetime/duetime/pkg/task"
)

type voucher struct {
	Code string `json:"code"`
}

// secret returns 32 bytes from this one on.
func secret(first byte) []byte {
	out := make([]byte, 32)
	for i := range out {
		out[i] = first + byte(i)
	}
	return out
}

// ring is a function of keys, of which the first encrypts.
func ring(keys ...encrypt.Key) encrypt.KeyFunc {
	return func(id string) (encrypt.Key, error) {
		for _, k := range keys {
			if id == "" || k.ID == id {
				return k, nil
			}
		}
		return encrypt.Key{}, errors.New("revoked")
	}
}

func kindOf(keys encrypt.KeyFunc, opts ...task.KindOption) task.Kind[voucher] {
	return task.NewKind[voucher]("coupon.expire", append(opts, encrypt.Payloads(keys))...)
}

// rowOf is the task as its row would be.
func rowOf(spec task.Spec) task.Task {
	return task.Task{ID: spec.ID(), Kind: spec.Kind().Name, Owner: spec.Owner(), Payload: spec.Payload()}
}

// The form is the documented one: these bytes were made by Node's crypto.
func TestForm(t *testing.T) {
	t.Parallel()
	const want = `{"encrypted":"k1","data":"8McnLSa3NhedfRSX6vZ24NGqVKEoAT1eIuC9b0SSBmn8lwkdg+gDwJiLt3aHJJvsAg=="}`
	kind := kindOf(ring(encrypt.Key{ID: "k1", Secret: secret(0)}))
	spec := kind.New("ada", voucher{"SPRING"}, task.In(0))
	if got := string(spec.Payload()); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
	if p, err := kind.Payload(rowOf(spec)); err != nil || p.Code != "SPRING" {
		t.Errorf("decrypted to %v, %v", p, err)
	}
}

// A payload can be read with its key, by the tasks of its kind and owner; whatever else is an error that says what is wrong.
func TestWhatIsDecrypted(t *testing.T) {
	t.Parallel()
	k1, k2 := encrypt.Key{ID: "k1", Secret: secret(0)}, encrypt.Key{ID: "k2", Secret: secret(9)}
	spec := kindOf(ring(k1)).New("ada", voucher{"SPRING"}, task.In(0))
	row := rowOf(spec)
	of := func(change func(row *task.Task)) task.Task {
		other := row
		other.Payload = bytes.Clone(row.Payload)
		change(&other)
		return other
	}
	for name, c := range map[string]struct {
		keys  encrypt.KeyFunc
		row   task.Task
		wrong string // part of the error; empty: SPRING
	}{
		"its key":            {ring(k1), row, ""},
		"after a rotation":   {ring(k2, k1), row, ""},
		"before the kind":    {ring(k2), of(func(r *task.Task) { r.Payload = []byte(`{"code": "SPRING"}`) }), ""},
		"a key taken out":    {ring(k2), row, `key "k1", which encrypted the payload: revoked`},
		"another secret":     {ring(encrypt.Key{ID: "k1", Secret: secret(9)}), row, `can't be decrypted with key "k1"`},
		"another owner":      {ring(k1), of(func(r *task.Task) { r.Owner = "bob" }), `can't be decrypted with key "k1"`},
		"another kind":       {ring(k1), of(func(r *task.Task) { r.Kind = "gift" }), `can't be decrypted with key "k1"`},
		"a changed byte":     {ring(k1), of(func(r *task.Task) { r.Payload[60] ^= 1 }), `can't be decrypted with key "k1"`},
		"a field of its own": {ring(k2), of(func(r *task.Task) { r.Payload = []byte(`{"encrypted": "k1", "code": "SPRING"}`) }), ""},
		"no base64":          {ring(k1), of(func(r *task.Task) { r.Payload[60] = '*' }), `encrypted with key "k1", is damaged`},
		"no data":            {ring(k1), of(func(r *task.Task) { r.Payload = []byte(`{"encrypted": "k1", "data": 7}`) }), `encrypted with key "k1", is damaged`},
		"a short secret":     {ring(encrypt.Key{ID: "k1", Secret: []byte("short")}), row, "must be 32 bytes, and has 5"},
		"another key's id":   {func(string) (encrypt.Key, error) { return k2, nil }, row, `asked for key "k1", the function of keys answered "k2"`},
		"with a group's sum": {ring(k1), of(func(r *task.Task) {
			r.Payload = []byte(strings.Replace(string(r.Payload), "{", `{"group":{"done":3},`, 1))
		}), ""},
	} {
		p, err := kindOf(c.keys).Payload(c.row)
		switch {
		case c.wrong == "" && (err != nil || p.Code != "SPRING"):
			t.Errorf("%s: %v, %v", name, p, err)
		case c.wrong != "" && (err == nil || !strings.Contains(err.Error(), c.wrong)):
			t.Errorf("%s: %v, %v, want an error with %s", name, p, err, c.wrong)
		}
	}
}

// What does not fit the type is no part of the error.
func TestErrorsTellNoPayload(t *testing.T) {
	t.Parallel()
	keys := ring(encrypt.Key{ID: "k1", Secret: secret(0)})
	later := task.NewKind[struct {
		Code time.Time `json:"code"`
	}]("coupon.expire", encrypt.Payloads(keys))
	_, err := later.Payload(rowOf(kindOf(keys).New("ada", voucher{"SPRING"}, task.In(0))))
	if err == nil || strings.Contains(err.Error(), "SPRING") {
		t.Errorf("got %v", err)
	}
}

// The counts of a group reach its follower, whose payload is encrypted.
func TestFollowersPayload(t *testing.T) {
	t.Parallel()
	type report struct {
		Name  string     `json:"name"`
		Group task.Group `json:"group"`
	}
	kind := task.NewKind[report]("report", encrypt.Payloads(ring(encrypt.Key{ID: "k1", Secret: secret(0)})))
	row := rowOf(kind.New("ada", report{Name: "may"}, task.In(0)))
	row.Payload = []byte(strings.Replace(string(row.Payload), "{", `{"group":{"name":"mails","done":3},`, 1))
	if p, err := kind.Payload(row); err != nil || p.Name != "may" || p.Group.Done != 3 || p.Group.Name != "mails" {
		t.Errorf("decoded %+v, %v", p, err)
	}
	text := task.NewKind[string]("text", encrypt.Payloads(ring(encrypt.Key{ID: "k1", Secret: secret(0)})))
	if _, err := group.NewFollower("mails", text.New("ada", "no object", task.In(0)), time.Now()); err == nil || !strings.Contains(err.Error(), "JSON object") {
		t.Errorf("a follower whose payload is no object: %v", err)
	}
}

// A call is refused while there is no key, and nothing of its payload is told.
func TestNoKey(t *testing.T) {
	t.Parallel()
	kind := kindOf(func(string) (encrypt.Key, error) { return encrypt.Key{}, errors.New("vault is away") })
	spec := kind.New("ada", voucher{"SPRING"}, task.In(0))
	if _, err := spec.Resolve(time.Now()); err == nil || err.Error() != "the key that encrypts payloads: vault is away" {
		t.Errorf("got %v", err)
	}
	if spec.Payload() != nil {
		t.Errorf("the payload is %s", spec.Payload())
	}
}

// Equal payloads are encrypted alike for one owner, and not for another, nor by another key.
func TestEqualPayloads(t *testing.T) {
	t.Parallel()
	k1, k2 := encrypt.Key{ID: "k1", Secret: secret(0)}, encrypt.Key{ID: "k1", Secret: secret(9)}
	of := func(k encrypt.Key, owner, code string) string {
		return string(kindOf(ring(k)).New(owner, voucher{code}, task.In(0)).Payload())
	}
	first := of(k1, "ada", "SPRING")
	if again := of(k1, "ada", "SPRING"); again != first {
		t.Errorf("%s, then %s", first, again)
	}
	for name, other := range map[string]string{"owner": of(k1, "bob", "SPRING"), "key": of(k2, "ada", "SPRING"), "payload": of(k1, "ada", "SUMMER")} {
		if other == first {
			t.Errorf("another %s: %s", name, other)
		}
	}
}

func TestFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "keys")
	line := func(id string, first byte) string {
		return id + " " + base64.StdEncoding.EncodeToString(secret(first)) + "\n"
	}
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("# of the shop\n\n" + line("k1", 0) + line("k0", 1))
	keys, err := encrypt.File(path)
	if err != nil {
		t.Fatal(err)
	}
	want := func(id, got string, first byte) {
		t.Helper()
		if k, err := keys(id); err != nil || k.ID != got || !bytes.Equal(k.Secret, secret(first)) {
			t.Errorf("key %q is %v, %v", id, k.ID, err)
		}
	}
	want("", "k1", 0)
	want("k0", "k0", 1)
	if _, err := keys("k2"); err == nil {
		t.Error("a key that the file lacks is found")
	}
	write(line("k1", 0) + line("k2", 2))
	want("k2", "k2", 2) // at once
	write("k1\n")
	if _, err := keys("k3"); err == nil || !strings.Contains(err.Error(), "line 1") {
		t.Errorf("a file that can't be read: %v", err)
	}
	want("k2", "k2", 2)
	for text, wrong := range map[string]string{
		"": "has none", "k1 c2hvcnQ=\n": `the secret of key "k1" must be 32 bytes`, "k1 a b\n": "an id, a blank",
		"k1 " + strings.Repeat("*", 44): `the secret of key "k1" must be 32 bytes`,
	} {
		write(text)
		if _, err := encrypt.File(path); err == nil || !strings.Contains(err.Error(), wrong) || strings.Contains(err.Error(), "c2hvcnQ") {
			t.Errorf("%q: %v, want an error with %s", text, err, wrong)
		}
	}
}

func ExamplePayloads() {
	keys, err := encrypt.File("testdata/keys")
	if err != nil {
		fmt.Println(err)
		return
	}
	type Voucher struct{ Code string }
	expire := task.NewKind[Voucher]("coupon.expire", encrypt.Payloads(keys))

	spec := expire.New("ada", Voucher{"SPRING"}, task.In(0))
	row := task.Task{Kind: expire.Name(), Owner: "ada", Payload: spec.Payload()}
	fmt.Println("the row has the code:", bytes.Contains(row.Payload, []byte("SPRING")))

	p, err := expire.Payload(row) // as a worker does before it calls the handler
	fmt.Println("the handler has the code:", p.Code, err)
	// Output:
	// the row has the code: false
	// the handler has the code: SPRING <nil>
}
