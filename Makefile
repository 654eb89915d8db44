# make run and make test are all that a newcomer needs.

GO       ?= go
EVENTS   ?= 2000
TESTFLAGS ?=
BENCHFLAGS ?=

LINT_VERSION := v2.15.0
LINT         := .cache/golangci-lint-$(LINT_VERSION)/golangci-lint

.DEFAULT_GOAL := help

.PHONY: help
help: ## Show the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build
build: ## Build bin/inboxd
	$(GO) build -o bin/inboxd ./cmd/inboxd

.PHONY: run
run: build ## Build it and run a sample on embedded servers
	bin/inboxd dev --events $(EVENTS)

.PHONY: test
test: ## Run the tests, on a PostgreSQL of their own
	$(GO) test -race -shuffle=on -timeout 20m $(TESTFLAGS) ./...

.PHONY: test-kafka
test-kafka: ## Run the tests of the Kafka source on a real Apache Kafka: needs Java 17 and Maven
	testdata/kafka-local install
	$(GO) test -tags kafka -count=1 -run '^TestReal' -timeout 15m $(TESTFLAGS) ./inbox/kafka

.PHONY: lint
lint: $(LINT) ## Check the format and the code
	@unformatted=$$(gofmt -l $$($(GO) list -f '{{.Dir}}' ./...)); \
	if [ -n "$$unformatted" ]; then echo "not formatted by gofmt:"; echo "$$unformatted"; exit 1; fi
	$(GO) vet ./...
	$(GO) vet -tags kafka ./inbox/kafka
	$(LINT) run ./...

$(LINT):
	GOBIN=$(abspath $(dir $@)) $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(LINT_VERSION)

.PHONY: api
api: ## Write down what the packages export, under api/
	$(GO) run ./internal/apilist

.PHONY: tidy-check
tidy-check: ## Check that go.mod and go.sum are complete and true
	$(GO) mod tidy -diff
	$(GO) mod verify

.PHONY: clean
clean: ## Remove what was built
	rm -rf bin .cache

.PHONY: bench
bench: build ## Measure inboxd against the textbook loop, pgbench and COPY: a few minutes on an idle machine
	bin/inboxd bench $(BENCHFLAGS)

DURATION ?= 60s
SEED     ?= 1
TORTUREFLAGS ?=

.PHONY: torture
torture: build ## Kill, freeze and restart everything while events flow, then check: DURATION=10m SEED=7
	$(GO) run ./internal/torture -inboxd bin/inboxd -duration $(DURATION) -seed $(SEED) $(TORTUREFLAGS)
