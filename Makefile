# Everything happens inside .venv, made here with PYTHON (3.11 or newer); the machine outside it stays as it is.
# A stamp file says what has been installed; it is renewed when pyproject.toml changes.

PYTHON ?= python3
VENV = .venv
BIN = $(VENV)/bin
PIP = $(BIN)/python -m pip install --quiet
# Test processes; each may start servers of its own.
WORKERS ?= 2
PYTEST = $(BIN)/python -m pytest --numprocesses $(WORKERS) --dist loadfile
# What `make coverage` demands, in per cent: one less than it measured, for machines without Chromium or Redis.
COVERAGE = 96
EXECUTIONS ?= 1000000
SECONDS_GUIDED ?= 120

.PHONY: help demo test test-engine test-security test-chat test-chat-real test-scale test-clients clients-table test-mcp mcp-servers test-xgrammar \
	test-conformance test-integrations models record-response-templates chat-screens coverage check docs bench fuzz wheel release clean

help:
	@echo 'make demo    a tiny model calls a tool through fcshim, in this terminal'
	@echo 'make test    the tests of every module, in a few minutes'
	@echo 'make test-engine    the tests that start llama-server, the embedded model, MCP servers or terminals'
	@echo 'make models  the real models and BFCL (1.8 GB), for tests and benchmarks; MODELS="qwen-0.5b bfcl" for some'
	@echo 'make test-security  the attacks of docs/security.md, on this machine only'
	@echo 'make test-chat    a chat of twenty turns on a real llama-server; keeps its screens in .cache/screens'
	@echo 'make test-chat-real  a chat of ten turns with Qwen2.5-Coder-0.5B on a real llama-server'
	@echo 'make test-scale     workers, reloads, crashes, shared stores and Ray Serve under load, with figures'
	@echo 'make test-clients   coding agents and agent frameworks as clients, each in an environment of its own'
	@echo 'make clients-table  the results of make test-clients as the table of docs/agents.md'
	@echo 'make chat-screens   the pictures of docs/chat.md, from that session'
	@echo 'make test-mcp       MCP servers of the registries, and servers on old SDKs'
	@echo 'make test-conformance  the suites of others: CanIToolCall, JSONTestSuite, JSON-Schema-Test-Suite, llm-comply, ...'
	@echo 'make test-integrations  the plugins for LangChain, Pydantic AI, llm, vLLM and SGLang, each in its environment'
	@echo 'make test-xgrammar  what xgrammar (vLLM, SGLang) makes of our grammars; it needs torch, so in .venv-xgrammar'
	@echo 'make record-response-templates  what transformers reads from the replies of tests/parse/response_template'
	@echo 'make coverage       both test suites with branch coverage; fails below $(COVERAGE) %'
	@echo 'make check   format, lint, types, layers'
	@echo 'make docs    the documentation as a website, in site/'
	@echo 'make release  the distributions in dist/, checked, with a list of what they install (SBOM)'
	@echo 'make bench   the benchmarks'
	@echo 'make fuzz    the laws of the parser, EXECUTIONS=$(EXECUTIONS) times, those of the proxy, every property with other examples,'
	@echo '             then guided by coverage (Linux)'
	@echo 'make wheel   sdist and wheel, in dist/'
	@echo 'make clean   remove what these made'

demo: $(VENV)/demo.stamp
	$(BIN)/fcshim demo

test: $(VENV)/dev.stamp
	$(PYTEST) -m 'not engine' $(ARGS)

test-engine: $(VENV)/dev.stamp
	$(PYTEST) -m engine $(ARGS)

# Into .cache/models, or the folder that FCSHIM_MODELS names.
models: $(VENV)/dev.stamp
	$(BIN)/python -m tests.real_models $(MODELS)

test-security: $(VENV)/dev.stamp
	$(PYTEST) -m security $(ARGS)

test-chat: $(VENV)/dev.stamp
	$(BIN)/python -m pytest tests/chat/test_twenty_turns.py $(ARGS)

# A chat of ten turns with Qwen2.5-Coder-0.5B, whose words no test forces; `make models MODELS=qwen-0.5b` fetches it.
test-chat-real: $(VENV)/dev.stamp
	FCSHIM_REAL_CHAT=1 $(BIN)/python -m pytest tests/chat/test_real_model.py $(ARGS)

coverage: $(VENV)/dev.stamp
	$(PYTEST) --cov --cov-report= $(ARGS)
	$(BIN)/coverage report --fail-under=$(COVERAGE)

# Workers, reloads, crashes, stores and Ray Serve, first as tests, then as figures.
test-scale: $(VENV)/dev.stamp
	$(BIN)/python -m tests.integrations.ray_environment
	$(PYTEST) tests/server/test_workers.py tests/server/test_reload.py tests/server/test_store*.py tests/engine/test_scale.py \
		tests/integrations $(ARGS)
	$(BIN)/python -m benchmarks.scale

test-clients: $(VENV)/dev.stamp
	$(BIN)/python -m tests.clients.environments
	$(BIN)/python -m pytest tests/clients -o junit_family=xunit1 --junitxml=.cache/clients/report.xml $(ARGS)

# The last results as the table of docs/agents.md.
clients-table:
	$(BIN)/python -m tests.clients.results

# The pictures of docs/chat.md, from the session of test-chat.
chat-screens: test-chat
	for picture in docs/images/chat/*.svg; do cp .cache/screens/$${picture##*/} $$picture; done

test-mcp: $(VENV)/dev.stamp
	$(BIN)/python -m tests.registry.environments
	$(BIN)/python -m pytest tests/registry $(ARGS)

# The server of PyPI for which `make test-engine` then runs the tests, too.
mcp-servers: $(VENV)/dev.stamp
	$(BIN)/python -m tests.registry.environments time

test-conformance: $(VENV)/dev.stamp
	$(BIN)/python -m tests.conformance.environment
	$(BIN)/python -m pytest tests/conformance $(ARGS)

test-integrations: $(VENV)/dev.stamp
	$(BIN)/python -m tests.integrations.framework_environments
	$(BIN)/python -m pytest tests/integrations/test_frameworks.py $(ARGS)

test-xgrammar: $(VENV)-xgrammar/stamp
	$(VENV)-xgrammar/bin/python -m pytest tests/constrain/test_xgrammar.py $(ARGS)

record-response-templates: $(VENV)-transformers/stamp
	$(VENV)-transformers/bin/python tests/parse/response_template/record.py

check: $(VENV)/dev.stamp
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: $(VENV)/docs.stamp
	$(BIN)/codespell README.md ARCHITECTURE.md CONTRIBUTING.md CHANGELOG.md docs --skip '*.svg,*.png,*.json' --ignore-words-list wirte
	DISABLE_MKDOCS_2_WARNING=true NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

bench: $(VENV)/bench.stamp
	$(BIN)/python -m benchmarks $(ARGS)

fuzz: $(VENV)/fuzz.stamp
	$(BIN)/python -m tests.fuzz.run --executions $(EXECUTIONS) $(ARGS)
	$(BIN)/python -m tests.fuzz.proxy.run
	$(PYTEST) -m 'not engine' --hypothesis-profile explore `grep -rl 'from hypothesis' tests --include='test_*.py'`
	@if $(BIN)/python -c 'import atheris' 2>/dev/null; \
	then $(BIN)/python -m tests.fuzz.coverage -max_total_time=$(SECONDS_GUIDED) -verbosity=0; \
	else echo 'atheris is not to be had here: no fuzzing guided by coverage'; fi

wheel: $(VENV)/dev.stamp
	$(BIN)/python -m build --outdir dist

# What is uploaded: the distributions in dist/, checked and tried with each Python that is there; and, not uploaded, the
# list of all that `fcshim[all]` installs.
LATER := python3.12 python3.13 python3.14 python3.15
release: check docs test $(VENV)/release.stamp
	rm -rf dist build/release
	$(BIN)/python -m build --outdir dist
	$(BIN)/twine check --strict dist/*
	for python in $(PYTHON) $(LATER); do \
		$$python -c 1 2>/dev/null || continue; \
		$$python -m venv --clear build/release/venv && \
		build/release/venv/bin/python -m pip install --quiet "$$(echo dist/*.whl)[all]" && \
		build/release/venv/bin/fcshim demo --engine numpy >/dev/null && build/release/venv/bin/python -V || exit 1; \
	done
	$(BIN)/cyclonedx-py environment build/release/venv/bin/python --output-file build/release/sbom.cdx.json
	@ls -l dist build/release/sbom.cdx.json

clean:
	rm -rf $(VENV) $(VENV)-xgrammar $(VENV)-transformers dist build site .cache .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# pip learned about dependency groups in 25.1.
$(VENV)/pip.stamp:
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("fcshim needs Python 3.11 or newer, for example: make PYTHON=python3.12 ...")'
	$(PYTHON) -m venv $(VENV)
	$(PIP) --upgrade 'pip>=25.1'
	@touch $@

$(VENV)/demo.stamp: $(VENV)/pip.stamp pyproject.toml
	$(PIP) --editable '.[demo]'
	@touch $@

$(VENV)/dev.stamp: $(VENV)/demo.stamp
	$(PIP) --editable '.[all,plot]' --group dev
	@touch $@

# torch comes first: what only depends on it would take any build of it.
$(VENV)-xgrammar/stamp: pyproject.toml
	$(PYTHON) -m venv $(VENV)-xgrammar
	$(VENV)-xgrammar/bin/python -m pip install --quiet --upgrade 'pip>=25.1'
	$(VENV)-xgrammar/bin/python -m pip install --quiet torch==2.13.0
	$(VENV)-xgrammar/bin/python -m pip install --quiet --editable '.[client]' --group xgrammar
	@touch $@

$(VENV)-transformers/stamp:
	$(PYTHON) -m venv $(VENV)-transformers
	$(VENV)-transformers/bin/python -m pip install --quiet 'transformers>=5.23'
	@touch $@

$(VENV)/fuzz.stamp: $(VENV)/dev.stamp
	$(PIP) --group fuzz
	@touch $@

$(VENV)/docs.stamp: $(VENV)/dev.stamp
	$(PIP) --group docs
	@touch $@

$(VENV)/release.stamp: $(VENV)/dev.stamp
	$(PIP) --group release
	@touch $@

$(VENV)/bench.stamp: $(VENV)/dev.stamp
	$(PIP) --group bench
	@touch $@
