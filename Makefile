# Thin on purpose: each target is a few plain commands, and safe to run twice.
# The README lists the same commands for a machine without make.

# The first Python on this machine that the book runs on; PYTHON=… chooses another.
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11 python; do \
	$$p -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' 2>/dev/null && { echo $$p; break; }; done)
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
# pip would compile 26,000 files on one processor. (Some are templates, or for other Pythons; of these, few are used.)
UNUSED := /(tests?|examples|OpenGL|rllib)/|/transformers/models/
COMPILE := $(BIN)/python -m compileall -q -j 0 -x '$(UNUSED)' $(VENV)/lib > /dev/null 2>&1 || true
# TORCH=cpu takes PyTorch's small CPU build from PyTorch's own index (Linux; elsewhere the plain one is small already).
ifeq ($(TORCH),cpu)
TORCH_INDEX := --extra-index-url https://download.pytorch.org/whl/cpu
endif
NBVAL := --nbval-lax --nbval-current-env --nbval-cell-timeout=180

# Where it is set, hundreds of processes would compile the library anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup book editions lab real test learning check mutants browser notebooks bench hooks clean

help:
	@echo "make book       build the site and serve it on this machine (SERVE=0 only builds)"
	@echo "make editions   build the site, and make the book's zip, PDF and EPUB of it, in _build/editions (ONLY=pdf: one of them)"
	@echo "make lab        open the chapters and exercises in JupyterLab, in copies of your own under work/ (LAB=… passes options)"
	@echo "make real       download SmolLM2, a small chat model, into runs/smollm2 for the page To a real model"
	@echo "make test       run everything: style, types, spelling, site, library, every notebook"
	@echo "make learning   what trains, and every notebook, with each kind of arithmetic that this processor has"
	@echo "make setup      install everything into .venv (TORCH=cpu: the small CPU build of PyTorch)"
	@echo "make check      the quick part of the tests, in under half a minute (the first time, a whole one)"
	@echo "make mutants    let mutmut make bugs in the formulas, and count those that no test finds (half an hour)"
	@echo "make browser    open the site and JupyterLab in Chromium and try them"
	@echo "make notebooks  make the notebooks from their text again; NAME=01 makes those of one chapter"
	@echo "make bench      race the library against its peers (QUICK=1: under five minutes; CLEANRL=PATH, PUREJAXRL=PATH: checkouts of these two)"
	@echo "make hooks      let git run make check before each commit"
	@echo "make clean      remove what was built; never work/"

# --- environments: stamps, so that a second run installs nothing -----------------------------------------------

$(VENV)/.venv:
	@test -n "$(PYTHON)" || { echo "The book needs Python 3.11, 3.12 or 3.13, and none was found: install one (https://www.python.org/downloads/) and run this again."; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' 2>/dev/null || { echo "PYTHON=$(PYTHON) cannot be run, or is not Python 3.11, 3.12 or 3.13: leave PYTHON out, or give the path of one of these."; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { echo "$(PYTHON) cannot make virtual environments: install its venv module (Debian, Ubuntu: apt install python3-venv) and run this again."; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	@touch $@

# Without its dependencies, the package is what the site reads; torch stays out.
$(VENV)/.site: $(VENV)/.venv pyproject.toml constraints.txt
	@echo "Installing what the site needs, once: about a minute."
	$(PIP) --group site
	$(PIP) --no-deps --editable .
	@touch $@

$(VENV)/.editions: $(VENV)/.site
	$(PIP) --group editions
	@touch $@

$(VENV)/.lab: $(VENV)/.venv pyproject.toml constraints.txt
	@echo "Installing PyTorch and JupyterLab, once: a few minutes."
	$(PIP) $(TORCH_INDEX) --editable '.[lab]'
	@touch $@

$(VENV)/.all: $(VENV)/.venv pyproject.toml constraints.txt
	@echo "Installing everything, once: a few minutes."
	$(PIP) --no-compile $(TORCH_INDEX) --editable '.[lab,course,tensorboard,plot,watch,box2d,mujoco,hf,scale]' --group site --group test --group browser --group editions
	$(COMPILE)
	@touch $(VENV)/.site $(VENV)/.editions $(VENV)/.lab $@

setup: $(VENV)/.all

# --- the three uses --------------------------------------------------------------------------------------------

# (Port 0: one that is free. Only this machine can see it.)
book: $(VENV)/.site
	$(BIN)/sphinx-build -W --keep-going -q -b html -d _build/doctrees . _build/html
ifneq ($(SERVE),0)
	$(BIN)/python -u -m http.server 0 --bind 127.0.0.1 --directory _build/html 2> /dev/null
endif

editions: $(VENV)/.editions
	$(MAKE) book SERVE=0
	$(BIN)/python tools/editions.py $(ONLY)

# (JupyterLab shows the stored figures of notebooks that are trusted only. It would ask whether to fetch news; a
# reader's own settings still go before ours.)
lab: $(VENV)/.lab
	$(BIN)/ppobook work
	PATH="$(abspath $(BIN)):$$PATH" jupyter trust $(addprefix work/,$(wildcard chapters/*.ipynb exercises/*.ipynb desk/*.ipynb)) > /dev/null || true
	cd work && JUPYTER_CONFIG_PATH="$(abspath tools/jupyter)" PATH="$(abspath $(BIN)):$$PATH" jupyter lab $(LAB)

# (From the package, whose weights are those of the recorded experiments.)
real: $(VENV)/.all
	$(BIN)/ppobook language smollm2 runs/smollm2 --source package

notebooks: $(VENV)/.all
	$(BIN)/python tools/notebooks.py $(NAME)

# What is done is kept in benchmarks/.done, so a race that was stopped goes on where it was.
bench: $(VENV)/.all
	TORCH=$(TORCH) CLEANRL="$(CLEANRL)" PUREJAXRL="$(PUREJAXRL)" $(BIN)/python benchmarks/race.py $(if $(QUICK),--quick) $(if $(RECORD),--record)

# --- tests -----------------------------------------------------------------------------------------------------

check: $(VENV)/.all
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/codespell
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/pytest -q tests/notebooks/test_digest.py

# (What is in `make check` is not run again.)
test: $(VENV)/.all
	$(MAKE) -j 2 check book SERVE=0
	OMP_NUM_THREADS=1 $(BIN)/pytest -n 2 --dist loadfile --no-loadscope-reorder --durations 15 --ignore tests/browser \
		--ignore tests/notebooks/test_digest.py $(NBVAL) tests chapters exercises/masters desk

# What trains goes other ways where a processor rounds otherwise. PyTorch can do as all smaller processors do.
KINDS := import torch; kinds = ['default', 'avx2', 'avx512']; best = torch.backends.cpu.get_cpu_capability().lower(); \
	print(*kinds[: kinds.index(best) + 1] if best in kinds else [best])
learning: $(VENV)/.all
	@export OMP_NUM_THREADS=1; failed=; \
	for kind in $$(env -u ATEN_CPU_CAPABILITY $(BIN)/python -c "$(KINDS)"); do \
		export ATEN_CPU_CAPABILITY=$$kind; echo "=== $$kind"; \
		$(BIN)/pytest -q -n 2 -m learning --least-margin 2 --ignore tests/browser tests && \
		$(BIN)/pytest -q -n 2 --dist loadfile $(NBVAL) chapters exercises/masters || failed="$$failed $$kind"; \
	done; [ -z "$$failed" ] || { echo "Failed:$$failed"; exit 1; }

# mutmut wants the library in a folder src. It ends well if at least 95 % of its bugs are found.
mutants: $(VENV)/.all
	$(PIP) --group mutants
	rm -rf _build/mutants && mkdir -p _build/mutants
	cp -r lib _build/mutants/src && cp -r tests tools results pyproject.toml _build/mutants
	cd _build/mutants && OMP_NUM_THREADS=1 $(abspath $(BIN))/mutmut run && $(abspath $(BIN))/mutmut export-cicd-stats
	$(BIN)/python -c "import json; n = json.load(open('_build/mutants/mutants/mutmut-cicd-stats.json')); \
		found = (n['killed'] + n['timeout']) / n['total']; print(f'{found:.1%} found'); raise SystemExit(found < 0.95)"

browser: $(VENV)/.all
	$(MAKE) book SERVE=0
	$(BIN)/pytest -n 2 --dist loadgroup tests/browser

hooks:
	@hook=$$(git rev-parse --git-path hooks)/pre-commit; mkdir -p $$(dirname $$hook); \
	if [ -e $$hook ] && ! grep -q 'exec make check' $$hook; then \
		echo "There is a pre-commit hook of yours in $$hook: add a line 'make check' to it."; exit 1; \
	fi; printf '#!/bin/sh\nexec make check\n' > $$hook; chmod +x $$hook; echo "git runs make check before each commit."

clean:
	rm -rf _build autoapi dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
