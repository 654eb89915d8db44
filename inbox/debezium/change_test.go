package debezium_test

import (
	"strings"
	"testing"
	"time"

	"github.com/inboxd/inboxd/inbox"
	"github.com/inboxd/inboxd/inbox/debezium"
)

// change is a change event with a source block and the other members.
func change(key, source, members string) inbox.Record {
	r := inbox.Record{
		Value:  []byte(`{"ts_ms":99,"source":{` + source + `},` + members + `}`),
		Source: inbox.Source{Topic: "shop.public.orders", Partition: 1, Offset: 2}, Time: recordTime,
	}
	if key != "" {
		r.Key = []byte(key)
	}
	return r
}

const (
	postgres  = `"connector":"postgresql","name":"shop","ts_ms":1700000000123,"snapshot":"false","db":"d","schema":"public","table":"orders","txId":571,"lsn":24023128,"xmin":null`
	mysql     = `"connector":"mysql","name":"shop","ts_ms":1700000000000,"snapshot":"false","db":"d","table":"orders","server_id":223344,"gtid":null,"file":"mysql-bin.000003","pos":484,"row":0`
	sqlserver = `"connector":"sqlserver","name":"shop","ts_ms":1700000000000,"snapshot":"false","db":"d","schema":"dbo","table":"orders","change_lsn":"00000027:00000758:0003","commit_lsn":"00000027:00000758:0005","event_serial_no":"1"`
	oracle    = `"connector":"oracle","name":"shop","ts_ms":1700000000000,"snapshot":"false","db":"D","schema":"S","table":"ORDERS","txId":"6.28.807","scn":"2122185","commit_scn":"2122190","rs_id":"001234.00012345.0124","ssn":1`
	mongodb   = `"connector":"mongodb","name":"shop","ts_ms":1700000000000,"snapshot":"false","db":"d","rs":"rs0","collection":"orders","ord":31,"h":null`
	db2       = `"connector":"db2","name":"shop","ts_ms":1700000000000,"snapshot":"false","db":"D","schema":"S","table":"ORDERS","change_lsn":"a:1","commit_lsn":"a:2"`
)

func TestChangeEvent(t *testing.T) {
	t.Parallel()
	r := change(`{"id": 17}`, postgres, `"before":null,"after":{"id": 17, "n":1.00},"op":"c"`)
	ev, err := decoder(t).Decode(r)
	if err != nil {
		t.Fatal(err)
	}
	if ev.AggregateID != "17" || ev.Type != "orders.created" || string(ev.Payload) != string(r.Value) ||
		!ev.OccurredAt.Equal(time.UnixMilli(1700000000123)) || ev.Source != r.Source {
		t.Errorf("event %+v", ev)
	}
	wrapped := r
	wrapped.Key = []byte(`{"schema":{"type":"struct"},"payload":{"id":17}}`)
	wrapped.Value = []byte(`{"schema":{"type":"struct"},"payload":` + string(r.Value) + `}`)
	again, err := decoder(t).Decode(wrapped)
	if err != nil || again.ID != ev.ID || string(again.Payload) != string(r.Value) {
		t.Errorf("in an envelope it is %+v, err %v", again, err)
	}
}

func TestPositions(t *testing.T) {
	t.Parallel()
	const row = `"before":null,"after":{"id":17},"op":"c"`
	for source, want := range map[string]string{
		postgres:  "postgresql/shop/d/public/orders/24023128/571/c/",
		mysql:     "mysql/shop/d//orders/223344//mysql-bin.000003/484/0/c/",
		sqlserver: "sqlserver/shop/d/dbo/orders/00000027:00000758:0005/00000027:00000758:0003/1/c/",
		oracle:    "oracle/shop/D/S/ORDERS/2122185/6.28.807/001234.00012345.0124/1/c/",
		mongodb:   "mongodb/shop/d//orders/1700000000000/31/c/",
		db2:       "db2/shop/D/S/ORDERS/a:2/a:1/c/",
		strings.Replace(mysql, `"mysql"`, `"mariadb"`, 1):        "mariadb/shop/d//orders/223344//mysql-bin.000003/484/0/c/",
		strings.Replace(postgres, `"shop"`, `"a/b%"`, 1):         "postgresql/a%2Fb%25/d/public/orders/24023128/571/c/",
		strings.Replace(mysql, `"gtid":null`, `"gtid":"u:5"`, 1): "mysql/shop/d//orders/223344/u:5/mysql-bin.000003/484/0/c/",
	} {
		ev, err := decoder(t).Decode(change(`{"id":17}`, source, row))
		if err != nil || !strings.HasPrefix(ev.ID, want) || len(ev.ID) != len(want)+32 {
			t.Errorf("%s: %s, err %v", source, ev.ID, err)
		}
	}
}

func TestTypes(t *testing.T) {
	t.Parallel()
	for op, want := range map[string]string{
		"c": "orders.created", "u": "orders.updated", "d": "orders.deleted", "r": "orders.snapshot",
	} {
		ev, err := decoder(t).Decode(change(`{"id":17}`, postgres, `"before":{"id":17},"after":{"id":17},"op":"`+op+`"`))
		if err != nil || ev.Type != want {
			t.Errorf("%s: %s, err %v", op, ev.Type, err)
		}
	}
	ev, err := decoder(t).Decode(change(`{"prefix":"audit"}`, strings.Replace(postgres, `"orders"`, `""`, 1),
		`"op":"m","message":{"prefix":"audit","content":"e30="}`))
	if err != nil || ev.Type != "audit.message" || ev.AggregateID != "audit" {
		t.Errorf("%+v, err %v", ev, err)
	}
}

// ids decodes records and fails if two of them have one id.
func ids(t *testing.T, records ...inbox.Record) {
	t.Helper()
	seen := map[string]int{}
	for i, r := range records {
		ev, err := decoder(t).Decode(r)
		if err != nil {
			t.Fatal(err)
		}
		if other, ok := seen[ev.ID]; ok {
			t.Errorf("records %d and %d have one id, %s", other, i, ev.ID)
		}
		seen[ev.ID] = i
	}
}

func TestChangesAtOnePosition(t *testing.T) {
	t.Parallel()
	ids(t,
		change(`{"id":1}`, postgres, `"before":null,"after":{"id":1,"o":5},"op":"c"`),
		change(`{"id":2}`, postgres, `"before":null,"after":{"id":2,"o":5},"op":"c"`),
		change(`{"o":5}`, postgres, `"before":null,"after":{"id":1,"o":5},"op":"c"`), // the key is not the row's own
		change(`{"o":5}`, postgres, `"before":null,"after":{"id":2,"o":5},"op":"c"`),
		change(`{"id":1}`, postgres, `"before":{"id":1},"after":null,"op":"d"`), // the key of a row was changed
		change(`{"id":1}`, postgres, `"before":null,"after":{"id":1},"op":"c"`),
		change(`{"id":1}`, postgres, `"before":null,"after":{"id":1},"op":"r"`),
	)
	ids(t,
		change(`{"id":"1"}`, mongodb, `"before":null,"after":"{\"n\":2}","updateDescription":{"updatedFields":"{\"n\":1}"},"op":"u"`),
		change(`{"id":"1"}`, mongodb, `"before":null,"after":"{\"n\":2}","updateDescription":{"updatedFields":"{\"n\":2}"},"op":"u"`),
	)
}

func TestChangeSentAgain(t *testing.T) {
	t.Parallel()
	for _, pair := range [][2]inbox.Record{
		{
			change(`{"id":1}`, postgres, `"before":null,"after":{"id":1},"op":"c","transaction":null`),
			change(`{"id":1}`, postgres, `"op":"c","after":{ "id":1 },"ts_us":7`),
		},
		{ // the document is looked up when the change is sent
			change(`{"id":"1"}`, mongodb, `"after":"{\"n\":1}","updateDescription":{"updatedFields":"{\"n\":1}"},"op":"u"`),
			change(`{"id":"1"}`, mongodb, `"after":"{\"n\":2}","updateDescription":{"updatedFields":"{\"n\":1}"},"op":"u"`),
		},
	} {
		first, err := decoder(t).Decode(pair[0])
		if err != nil {
			t.Fatal(err)
		}
		pair[1].Source.Offset = 77
		if second, err := decoder(t).Decode(pair[1]); err != nil || first.ID != second.ID {
			t.Errorf("%s and %s, err %v", first.ID, second.ID, err)
		}
	}
}

func TestNoIdentity(t *testing.T) {
	t.Parallel()
	const row = `"before":null,"after":{"id":17,"c":"x"},"op":"c"`
	for name, tt := range map[string]struct{ key, source, members string }{
		"other connector":  {`{"id":1}`, strings.Replace(postgres, "postgresql", "vitess", 1), row},
		"no lsn":           {`{"id":1}`, strings.Replace(postgres, `"lsn":24023128`, `"lsn":null`, 1), row},
		"no file":          {`{"id":1}`, strings.Replace(mysql, `"file"`, `"f"`, 1), row},
		"no key":           {``, postgres, row},
		"no key, snapshot": {``, mysql, `"after":{"id":17,"c":"x"},"op":"r"`},
		"lsn is a list":    {`{"id":1}`, strings.Replace(postgres, `"lsn":24023128`, `"lsn":[1]`, 1), row},
	} {
		d := configured(t, []string{"$.after.c"}, false)
		_, err := d.Decode(change(tt.key, tt.source, tt.members))
		if got := reason(err); got != "no-event-id" {
			t.Errorf("%s: %s (%v)", name, got, err)
		}
		d = configured(t, []string{"$.after.c"}, true)
		if ev, err := d.Decode(change(tt.key, tt.source, tt.members)); err != nil || len(ev.ID) != 1 {
			t.Errorf("%s: with the configured id it is %q, err %v", name, ev.ID, err)
		}
	}
	for _, source := range []string{mysql, sqlserver} {
		if ev, err := configured(t, []string{"$.after.c"}, false).Decode(change("", source, row)); err != nil || ev.AggregateID != "x" {
			t.Errorf("rows that are numbered need no key: %+v, err %v", ev, err)
		}
	}
	if _, err := decoder(t).Decode(change("", postgres, row)); reason(err) != "no-aggregate-id" {
		t.Errorf("neither key nor rule: %v", err)
	}
}

func TestSnapshots(t *testing.T) {
	t.Parallel()
	source := strings.Replace(strings.Replace(sqlserver, `"change_lsn":"00000027:00000758:0003"`, `"change_lsn":null`, 1), `"snapshot":"false"`, `"snapshot":"last"`, 1)
	if _, err := decoder(t).Decode(change(`{"id":1}`, source, `"after":{"id":1},"op":"r"`)); err != nil {
		t.Errorf("a snapshot of SQL Server: %v", err)
	}
	for _, snapshot := range []string{`"true"`, `"incremental"`, `true`} {
		source := strings.Replace(mysql, `"false"`, snapshot, 1)
		if _, err := configured(t, []string{"$.after.id"}, false).Decode(change("", source, `"after":{"id":1},"op":"c"`)); reason(err) != "no-event-id" {
			t.Errorf("%s: %v", snapshot, err)
		}
	}
	source = strings.Replace(mysql, `"ts_ms":1700000000000`, `"ts_ms":0`, 1)
	if ev, err := decoder(t).Decode(change(`{"id":1}`, source, `"after":{"id":1},"op":"r"`)); err != nil || !ev.OccurredAt.Equal(recordTime) {
		t.Errorf("at %v, err %v: the time 0 is none", ev.OccurredAt, err)
	}
}

func TestConfig(t *testing.T) {
	t.Parallel()
	if _, err := debezium.New(debezium.Config{}); err == nil {
		t.Error("a decoder without decoders was made")
	}
}
