package clinic

import (
	"context"
	"log/slog"
	"os"
	"testing"
	"time"

	"gorm.io/driver/mysql"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/pkg/duetimetest"
	"github.com/duetime/duetime/pkg/embedded"
)

func TestMain(m *testing.M) { os.Exit(pipelinetest.Main(m)) }

// Times are told in the clinic's zone by whichever way they are written, and GORM may prepare its statements or not.
func TestClinic(t *testing.T) {
	t.Parallel()
	for name, prepared := range map[string]bool{"as they are": false, "prepared": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			books(t, prepared)
		})
	}
}

func books(t *testing.T, prepared bool) {
	t.Helper()
	ctx := t.Context()
	dsn := pipelinetest.MySQL(t).NewSchema(t) + "?parseTime=true&loc=Asia%2FShanghai&time_zone=%27%2B08%3A00%27" +
		"&" + pipelinetest.IsolationVariable(t) + "=%27READ-COMMITTED%27" // for Join
	db, err := gorm.Open(mysql.Open(dsn), &gorm.Config{
		PrepareStmt: prepared, TranslateError: true, Logger: logger.Discard,
	})
	pipelinetest.Must(t, err)
	own, err := db.DB()
	pipelinetest.Must(t, err)
	t.Cleanup(func() { _ = own.Close() })
	pipelinetest.Must(t, db.AutoMigrate(&Appointment{}, &Offer{}))
	pipeline, err := embedded.OpenMySQL(ctx, dsn, embedded.Config{Logger: slog.New(slog.DiscardHandler)})
	pipelinetest.Must(t, err)
	t.Cleanup(func() { pipelinetest.Must(t, pipeline.Close(context.Background())) })
	c := New(db, pipeline.Client, 24*time.Hour)

	shanghai, err := time.LoadLocation("Asia/Shanghai")
	pipelinetest.Must(t, err)
	first := time.Now().In(shanghai).Truncate(time.Hour).Add(72 * time.Hour)
	for id := range int64(2) { // the second finds the offer of the first
		pipelinetest.Must(t, c.Book(ctx, Appointment{ID: id + 1, Patient: "ada", StartsAt: first}, "a second look at your knee"))
	}
	pipelinetest.Must(t, c.Move(ctx, 2, first.Add(240*time.Hour)))
	duetimetest.RequireScheduled(t, pipeline.DB(), Remind, "ada", duetimetest.Payload(Reminder{1}), duetimetest.DueIn(48*time.Hour, 2*time.Hour))

	fired := duetimetest.Fire(t, pipeline.DB(), c.Handlers(), time.Now().Add(72*time.Hour))
	if len(fired) != 1 || fired[0].Result != duetimetest.Done {
		t.Fatalf("got %v fired, want the reminder of the first appointment", fired)
	}
	var text string
	pipelinetest.Must(t, own.QueryRowContext(ctx, "SELECT CAST(starts_at AS CHAR) FROM appointments WHERE id = 1").Scan(&text))
	if want := first.Format("2006-01-02 15:04:05.000"); text != want {
		t.Errorf("the column says %s, want %s, the clinic's time", text, want)
	}
	var rows []Appointment
	pipelinetest.Must(t, db.Order("id").Find(&rows).Error)
	if len(rows) != 2 || !rows[0].StartsAt.Equal(first) || !rows[1].StartsAt.Equal(first.Add(240*time.Hour)) ||
		rows[0].RemindedAt == nil || rows[0].RemindedAt.Sub(fired[0].At).Abs() > time.Minute || rows[1].RemindedAt != nil || rows[0].Reminder != fired[0].ID {
		t.Errorf("appointments are %+v", rows)
	}
	var offers int64
	pipelinetest.Must(t, db.Model(&Offer{}).Count(&offers).Error)
	if offers != 1 {
		t.Errorf("%d offers, want one", offers)
	}
}
