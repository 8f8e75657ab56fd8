# Longshore. `make help` lists the targets; `make demo` and `make test` are the two to start with.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

# One CGO setting everywhere: switching recompiles most of Kubernetes. Only the race
# detector needs a C compiler.
export CGO_ENABLED ?= 0

GO       ?= go
# The modules that take longest come first.
TESTED   := hack/demo . hack/release hack/site sdk plugins hack/alerts
# hack/e2e needs root and real nodes: only the target e2e runs its tests.
LINTED   := $(TESTED) hack/e2e
# Two mains of a few lines in hack/e2e/images/addons need a thousand packages, other versions of
# Kubernetes' libraries among them.
MODULES  := $(LINTED) hack/e2e/images/addons conformance/testplane/kubernetes hack/tools
TOOL     := $(GO) tool -modfile=hack/tools/go.mod
LDFLAGS  := -s -w
# The image's platforms; empty is this machine's for `image`, and linux/amd64,linux/arm64 for
# `release`. Those of another architecture need qemu-user-static. And the version of image and
# release; empty is that of git.
PLATFORMS ?=
VERSION  ?=
# `make demo` with nodes of Linux namespaces, as root: real. Empty: simulated ones.
NODES    ?=
# The deflake target's module, package and count.
MODULE   ?= .
PKG      ?= ./...
COUNT    ?= 10
FUZZTIME ?= 20s

# The folders whose packages are tested one after the other. Parts of modules that take long are some of their own.
LANES    := $(if $(filter hack/demo,$(TESTED)),hack/demo/rig) $(if $(filter .,$(TESTED)),host/app host) $(TESTED)
# Tests that take long, or measure time, are named TestLong…: only test-long and a `go test` by hand
# run them. The linter vets.
TEST     := $(GO) test -vet=off -skip ^TestLong
# The folders of packages that have a line like the first argument in the files *$(2).go.
packages_with = $(GO) list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.Dir}}{{end}}' ./... | while read -r d; do ! grep -qsE $(1) "$$d"/*$(2).go || echo "$$d"; done
# Tests all lanes with the flags given, also after a failure, and names those that failed. Three
# run at a time, because tests against control planes wait much of their time, and one package of
# each (-p 1), because a control plane is slow when eight tests share two cores; go writes the output
# of each package at once. Those of the rig wait longest: three of them run at a time.
test_modules = { failed=$$(printf '%s\n' $(LANES) | xargs -P 3 -I{} sh -c 'packages=./...; case {} in .) lane=longshore/host;; host) lane=host/app;; hack/demo) lane=demo/rig;; hack/demo/rig) lane= packages="-parallel 3 ./...";; *) lane=;; esac; \
	(cd {} && { [ -z "$$lane" ] || packages=$$($(GO) list ./... | grep -v "$$lane"); } && $(TEST) $(1) $$packages) >&3 || echo {}'); } 3>&1; \
	echo "left out: $$(grep -rh --include='*_test.go' '^func TestLong' . | wc -l) tests that take long or measure time; run them with: make test-long"; \
	[ -z "$$failed" ] || { echo "tests failed in:" $$failed >&2; exit 1; }

##@ General

.PHONY: help
help: ## Show this help
	@awk 'BEGIN {FS = ":.*##"; printf "usage: make <target>\n"} \
		/^[a-zA-Z_0-9-]+:.*?##/ {printf "  \033[36m%-18s\033[0m %s\n", $$1, $$2} \
		/^##@/ {printf "\n%s\n", substr($$0, 5)}' $(MAKEFILE_LIST)

.PHONY: demo
ifeq ($(NODES),real)
demo: build
	@hack/e2e/install-packages.sh
	@$(GO) run -C hack/release . image --version=e2e --out=dist/e2e
	@hack/progress.sh hack/e2e/demo $(GO) build -C hack/e2e -ldflags '$(LDFLAGS)' -o $(CURDIR)/bin/demo-real ./demo
	@bin/demo-real up
else
demo: build ## Two clusters on loopback, Longshore on both, a pod that runs on the other one (NODES=real: with real nodes, as root)
	@bin/demo up
endif

.PHONY: demo-down
demo-down: ## Stop what `make demo` started, and nothing else
	@if [ -f .demo-real/pid ]; then \
		[ -x bin/demo-real ] || $(GO) build -C hack/e2e -o $(CURDIR)/bin/demo-real ./demo; bin/demo-real down; fi
	@if [ -x bin/demo ]; then bin/demo down; else $(GO) run -C hack/demo . --dir $(CURDIR)/.demo down; fi

.PHONY: tools
tools: ## Build the developer tools once (linter, generators)
	@$(TOOL) controller-gen --version
	@$(TOOL) golangci-lint version

.PHONY: clean
clean: ## Remove built files from the clone (caches outside it stay)
	@rm -rf bin builtin-policies/dist/*.wasm builtin-policies/dist/*.wasm.*

##@ Generate

.PHONY: generate
generate: ## Deep copies, CRDs, roles, JSON schemas of the contract, modules of WebAssembly text (needs npm)
	@$(GO) run ./hack/generate

.PHONY: builtins
builtins: ## Compile the built-in policies to wasm
	@$(GO) run ./hack/builtins build

.PHONY: plugins
plugins: ## Compile the example policies to wasm
	@$(GO) run ./hack/builtins plugins

##@ Build

.PHONY: build
build: builtins ## Build the server, the user's command, the demo and the test plane
	@echo "building bin/longshore, bin/longshorectl and bin/demo; with an empty build cache this takes minutes" >&2
	@mkdir -p bin
	@hack/progress.sh bin/longshore $(GO) build -ldflags '$(LDFLAGS)' -o bin/longshore ./cmd/longshore
	@hack/progress.sh bin/longshorectl $(GO) build -ldflags '$(LDFLAGS)' -o bin/longshorectl ./cmd/longshorectl
	@hack/progress.sh bin/demo $(GO) build -C hack/demo -ldflags '$(LDFLAGS)' -o $(CURDIR)/bin/demo .
	@$(GO) build -C hack/demo -o $(CURDIR)/bin/podlister ./podlister
	@$(GO) run ./conformance/testplane/cmd build > /dev/null

.PHONY: build-testplane
build-testplane: ## Build the test control plane (cached outside the clone)
	@$(GO) run ./conformance/testplane/cmd build > /dev/null

.PHONY: build-bench
build-bench: build ## Build bin/bench, and what it measures
	@$(GO) build -C hack/demo -ldflags '$(LDFLAGS)' -o $(CURDIR)/bin/bench ./bench

.PHONY: image
image: builtins ## Build the container image as an OCI archive, dist/longshore-VERSION.tar (PLATFORMS=linux/amd64,linux/arm64)
	@$(GO) run -C hack/release . image --version=$(VERSION) --platforms=$(PLATFORMS)

.PHONY: release
release: builtins ## Build what a release consists of into dist/: image, longshorectl, bills of materials, checksums
	@$(GO) run -C hack/release . all --version=$(VERSION) --platforms=$(PLATFORMS)

.PHONY: docs
docs: ## Build the documentation as a static site with search, in dist/docs
	@$(GO) run -C hack/site . --out $(CURDIR)/dist/docs

##@ Test

.PHONY: test
test: build plugins ## The tests, those against real control planes included; names what it left out
	@$(call test_modules,-p 1 -timeout 40m)

.PHONY: test-long
test-long: build plugins ## The tests that take long or measure time (TestLong…), and the race detector over all of host, on a machine that does nothing else
	@failed=; for m in $(TESTED); do \
		(cd $$m && packages=$$($(call packages_with,'^func TestLong',_test)) && { [ -z "$$packages" ] || $(GO) test -run ^TestLong -p 1 -timeout 60m $$packages; }) || failed="$$failed $$m"; done; \
	CGO_ENABLED=1 $(TEST) -race -short -timeout 20m ./host/... || failed="$$failed race"; \
	[ -z "$$failed" ] || { echo "tests failed in:$$failed" >&2; exit 1; }

.PHONY: test-fast
test-fast: builtins ## The tests that need no control plane
	@$(call test_modules,-short -timeout 10m)

.PHONY: e2e
e2e: build plugins ## Longshore on two clusters with real nodes, as root; logs stay in .e2e (FROM=commit to upgrade from)
	@hack/e2e/install-packages.sh
	@$(GO) run -C hack/release . image --version=e2e --out=dist/e2e
	@hack/e2e/previous.sh
	@hack/progress.sh hack/e2e $(GO) test -C hack/e2e -c -o $(CURDIR)/bin/e2e.test .
	@cd hack/e2e && $(CURDIR)/bin/e2e.test -test.timeout 45m

.PHONY: test-race
test-race: builtins ## The race detector over the packages of host that have goroutines or locks, and over sdk (needs a C compiler)
	@failed=; (cd host && packages=$$($(call packages_with,'^\s+go [a-zA-Z]|go func|"sync|/sync/',)) && \
		CGO_ENABLED=1 $(TEST) -race -short -timeout 20m $$packages) || failed="$$failed host"; \
	(cd sdk && CGO_ENABLED=1 $(TEST) -race ./...) || failed="$$failed sdk"; \
	[ -z "$$failed" ] || { echo "tests failed in:$$failed" >&2; exit 1; }

.PHONY: bench
bench: build-bench ## Measure, interleaved with the baselines; writes bench/results.json
	@bin/bench

.PHONY: bench-scale
bench-scale: build-bench ## 10,000 pods on 5 virtual nodes, 500 namespaces; adds to bench/results.json
	@bin/bench -scale

.PHONY: bench-tenants
bench-tenants: build-bench ## Peering, and a provider with 50 tenants; adds to bench/results.json
	@bin/bench -tenants

.PHONY: fuzz
fuzz: builtins ## Fuzz every fuzz target for FUZZTIME, also after a failure of another
	@failed=$$(for m in $(TESTED); do (cd $$m && for p in $$($(call packages_with,'^func Fuzz',_test)); do \
		for f in $$(grep -hoE '^func (Fuzz[A-Za-z0-9_]+)' $$p/*_test.go | awk '{print $$2}'); do \
			echo "$$p $$f" >&2; $(GO) test -run '^$$' -fuzz "^$$f\$$" -fuzztime $(FUZZTIME) $$p >&2 || echo $$f; done; done); done); \
	[ -z "$$failed" ] || { echo "fuzz targets failed:" $$failed >&2; exit 1; }

.PHONY: deflake
deflake: build ## Run the tests of PKG in MODULE COUNT times
	@$(GO) test -C $(MODULE) -count=$(COUNT) -failfast $(PKG)

##@ Verify

.PHONY: lint
# With the default of 100, linters spend a quarter of their time collecting garbage.
lint: export GOGC ?= 300
lint: ## golangci-lint, which vets, over the modules, and go vet over the control plane's
	@# -trimpath is a flag of the build of conformance/testplane/kubernetes, so that Kubernetes is not compiled a second time.
	@failed=; lint() { echo "lint $$1"; (cd $$1 && $(GO) tool -modfile=$(CURDIR)/hack/tools/go.mod golangci-lint run --allow-parallel-runners --config $(CURDIR)/.golangci.yaml ./...); }; \
	(cd conformance/testplane/kubernetes && $(GO) vet -trimpath ./...) || failed="$$failed conformance/testplane/kubernetes"; \
	for m in $(LINTED); do lint $$m || failed="$$failed $$m"; done; \
	[ -z "$$failed" ] || { echo "go vet or lint failed in:" $$(printf '%s\n' $$failed | sort -u) >&2; exit 1; }

.PHONY: verify
verify: verify-generate verify-builtins verify-modules ## Generated files, built-in module and module files agree with their sources

.PHONY: verify-generate
verify-generate: ## Generated files are up to date
	@$(GO) run ./hack/generate
	@git diff --exit-code --stat -- host/apis charts sdk/contract/schema docs/reference/metrics.md '*.wasm' || { echo "generated files differ: run 'make generate' and commit"; exit 1; }

.PHONY: verify-builtins
verify-builtins: ## The built-in module matches its lock
	@$(GO) run ./hack/builtins verify

.PHONY: verify-modules
verify-modules: ## go.mod and go.sum of every module are tidy
	@failed=; for m in $(MODULES); do (cd $$m && $(GO) mod tidy -diff > /dev/null) || failed="$$failed $$m"; done; \
	[ -z "$$failed" ] || { echo "run 'go mod tidy' and commit in:$$failed" >&2; exit 1; }

##@ CI

.PHONY: ci
ci: ## What CI runs: each target, also after a failure of another
	@# Tests against control planes wait half of their time: the race detector and the linter take what is left.
	@failed=; run() { for target; do $(MAKE) --no-print-directory -k $$target || failed="$$failed $$target"; done; }; \
	run verify build plugins; \
	nice -n 19 $(MAKE) --no-print-directory -k test-race lint & checks=$$!; \
	run test; \
	wait $$checks || failed="$$failed test-race or lint"; \
	[ -z "$$failed" ] || { echo "failed:$$failed" >&2; exit 1; }
