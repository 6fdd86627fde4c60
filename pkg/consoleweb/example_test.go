package consoleweb_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"

	"github.com/duetime/duetime/pkg/consoleweb"
	"github.com/duetime/duetime/pkg/embedded"
)

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// A service serves the console's pages below a path of its own, to people who sign in.
func ExampleHandler() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "duetime-example-") // a service on servers has a duetime.Client, with the same Console
	check(err)
	defer func() { check(os.RemoveAll(dir)) }()
	client, err := embedded.OpenSQLite(ctx, filepath.Join(dir, "shop.db"), embedded.Config{})
	check(err)
	defer func() { check(client.Close(ctx)) }()
	users, err := consoleweb.ParseUsers("grace:operate:correct-horse-battery")
	check(err)
	pages, err := consoleweb.Handler(client.Console(), consoleweb.Config{Users: users})
	check(err)
	mux := http.NewServeMux()
	mux.Handle("/tasks/", http.StripPrefix("/tasks", pages))

	for _, password := range []string{"correct-horse-battery", "guessed"} {
		request := httptest.NewRequest(http.MethodGet, "/tasks/now", http.NoBody)
		request.SetBasicAuth("grace", password)
		answer := httptest.NewRecorder()
		mux.ServeHTTP(answer, request)
		fmt.Println(answer.Code)
	}
	// Output:
	// 200
	// 401
}
