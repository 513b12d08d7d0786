# `make demo` and `make test` set up what they need in .venv; nothing outside this folder is changed.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.ready
# The generated sources have their own printer, which the export check holds to.
CXX_SOURCES = $(shell find loomgen/include loomgen/emulator/csrc loomgen/conformance/kernels \
	-name '*.cuh' -o -name '*.hpp' -o -name '*.cpp' -o -name '*.cu' 2>/dev/null | sort)

TORCH = $(shell grep '^torch==' requirements/dev.txt)

.PHONY: demo test check census fuzz render clean
.DEFAULT_GOAL := test

demo: $(STAMP)
	$(BIN)/loomgen render --arch sm_100a --check
	$(BIN)/loomgen render --arch sm_100a
	$(BIN)/loomgen verify --backend emulate --stage '*__c64_k128*_bf16*' --shape 0,15,64,65,200 --heads 2/4
	$(BIN)/loomgen verify --backend emulate --op chunk_gated_delta_rule

test: check census fuzz
	$(BIN)/python -m pytest -n 2

check: $(STAMP)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tools/check_sizes.py
	$(if $(CXX_SOURCES),$(BIN)/clang-format --dry-run --Werror $(CXX_SOURCES))

census: $(STAMP)
	$(BIN)/loomgen census --arch all --strict

fuzz: $(STAMP)
	$(BIN)/loomgen fuzz --count 2000

render: $(STAMP)
	$(BIN)/loomgen render --arch all

clean:
	rm -rf build

# torch comes first: another package's open requirement on it could bring a different version. nvcc comes from
# PyPI only where the system has none that will do, which is for `doctor` to say.
$(STAMP): requirements/dev.txt requirements/nvcc.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "development needs Python 3.11 or newer; name one: make PYTHON=python3.12"; exit 3; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet $(TORCH)
	$(BIN)/python -m pip install --quiet -r requirements/dev.txt
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	$(BIN)/loomgen doctor nvcc >/dev/null || $(BIN)/python -m pip install --quiet -r requirements/nvcc.txt
	$(BIN)/loomgen doctor
	touch $@
