# Short names for what deploy/run does; it sets up what each needs on first use.
VENV ?= .venv
export VENV

.PHONY: help dev check format test bench migrate lock audit build docs sbom clean

help: ## List these targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

dev: ## Start everything on this machine and print what to open
	@deploy/run dev

check: ## Format, lint, types, import rules, then the unit tests
	@deploy/run check
	@$(VENV)/bin/python -m pytest -q -n 2 tests/unit

format: ## Write the code as the formatter and the safe lint fixes want it
	@deploy/run setup
	@$(VENV)/bin/ruff check --quiet --fix .
	@$(VENV)/bin/ruff format .

test: ## Everything, as in CI
	@deploy/run test

bench: ## Compare with other proxies on this machine (ARGS='--rounds 9', ARGS=micro)
	@deploy/run bench $(ARGS)

migrate: ## Bring the Postgres of GATEWAY_CONTROL_STATE_URL to this release
	@$(VENV)/bin/gateway-control migrate

# Pins already in a lock are kept: `make lock UPGRADE=--upgrade` moves them all. The tests' pins follow the runtime's.
UV ?= uv
COMPILE = $(UV) pip compile pyproject.toml --quiet --universal --python-version 3.11 --generate-hashes \
	--no-emit-index-url --no-emit-find-links --custom-compile-command 'make lock' $(UPGRADE)

lock: ## Pin every Python package again, with hashes and without addresses (needs uv)
	$(COMPILE) --output-file requirements.lock
	$(COMPILE) --extra otel --constraint requirements.lock --output-file requirements-otel.lock
	$(COMPILE) --group test --group bench --constraint requirements-otel.lock --output-file requirements-test.lock
	$(COMPILE:pyproject.toml=) --group build --constraint requirements-test.lock --output-file requirements-build.lock
	$(COMPILE:pyproject.toml=) --group node --output-file requirements-node.lock
	$(COMPILE:pyproject.toml=) --group audit --output-file requirements-audit.lock

audit: ## Look for known vulnerabilities of what is locked (asks a service on the network)
	@deploy/run audit

build: ## Make wheel and sdist in dist/
	@$(VENV)/bin/python -m hatchling build

docs: ## Write the documentation as a site to dist/site
	@NO_MKDOCS_2_WARNING=1 $(VENV)/bin/mkdocs build --strict --quiet -f deploy/docs/mkdocs.yml

sbom: ## Write dist/sbom.json, the bill of materials (CycloneDX)
	@mkdir -p dist
	@$(VENV)/bin/cyclonedx-py requirements requirements.lock --output-reproducible --of JSON -o dist/sbom.json

clean: ## Remove what the other targets made in this folder
	rm -rf $(VENV) $(VENV)-audit tests/support/node/node_modules docs/examples/upstream_identity/node_modules
	rm -rf .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis build dist
