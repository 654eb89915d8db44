package webhook_test

import (
	"log"
	"time"

	"github.com/inboxd/inboxd/handlers"
	"github.com/inboxd/inboxd/handlers/webhook"
)

// Each OrderShipped is sent to another service, in order within its order.
func Example() {
	hook, err := webhook.New(webhook.Config{
		URL:         "https://shipping.internal/hooks",
		Timeout:     2 * time.Second,
		Concurrency: 8,
		Token:       webhook.SecretFile("/run/secrets/shipping"),
	})
	if err != nil {
		log.Print(err)
		return
	}
	defer hook.Close()

	reg := handlers.New()
	hook.On(reg, "OrderShipped", handlers.WithRetry(handlers.Retry{Initial: time.Second, Attempts: 30}))
	// ordering.New(pool, reg, …) runs it, or cmd.Main(reg).
	// Output:
}
