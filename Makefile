# `make demo` and `make test` do all the set-up on a machine with Python 3.11+ and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: demo test test-browser test-slow test-oldest test-milvus test-networks test-pythons dist check levels \
	compared crossmodal external lasting quality budget cifar choices probes examples checks pairs signs benchmark search load \
	hostile docs tables docs-outputs format clean

demo: $(READY)
	$(BIN)/bridgehash demo --out demo

# One thread per worker: the problems are small, and competing thread pools make them slow.
# Tests start many processes, so these must find compiled modules.
test: check
	PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist worksteal --ignore=tests/browser

check: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

# In a real browser, one test at a time.
test-browser: $(READY)
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest tests/browser

test-slow: $(READY)
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -m slow -n 2

# Milvus listens on all addresses, so it runs in a network namespace with loopback only, and its
# processes end with it. It also has its own environment, because of the packages it installs.
MILVUS := .venv-milvus
ALONE = unshare $(if $(filter 0,$(shell id -u)),,--map-root-user) --net --pid --fork --kill-child --mount-proc

test-milvus: $(MILVUS)/.ready
	$(ALONE) sh -c 'ip link set lo up && exec $(MILVUS)/bin/python -m pytest -m milvus tests/index/servers/test_milvus.py'

# Backbones that need torch, ONNX Runtime or other large packages, in an environment of their own.
NETWORKS := .venv-networks

test-networks: $(NETWORKS)/.ready
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(NETWORKS)/bin/python -m pytest tests/features

# The declared minimum version of every dependency, in an environment of its own.
OLDEST := .venv-oldest
OLDEST_EXTRAS := data faiss postgres parquet zarr dask search plots serve text
comma := ,
empty :=
space := $(empty) $(empty)

test-oldest: $(OLDEST)/.ready
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(OLDEST)/bin/python -m pytest -n auto -W ignore::DeprecationWarning --ignore=tests/browser --ignore=tests/test_docs.py --ignore=tests/docs

# Every supported version of Python that is on this machine, each in an environment of its own.
PYTHONS ?= 3.11 3.12 3.13

test-pythons:
	@set -e; for version in $(PYTHONS); do \
	  if python$$version -c '' 2>/dev/null; \
	  then $(MAKE) test PYTHON=python$$version VENV=.venv-$$version; \
	  else echo "python$$version: not on this machine, skipped"; fi; \
	done

# Wheel and source archive, checked: complete, and the wheel works in an environment of its own.
dist: $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt build
	rm -rf dist
	$(BIN)/python -m build --outdir dist .
	$(BIN)/python tests/check_dist.py dist

# Benchmarks add what they measure to a record; `make tables` copies it to the documentation.
RECORDS := docs/results/records

levels: $(READY)
	$(BIN)/python benchmarks/levels.py --record $(RECORDS)/levels.json

compared: $(READY)
	$(BIN)/python benchmarks/compared.py --record $(RECORDS)/compared.json

cifar: $(READY)
	$(BIN)/python benchmarks/cifar.py --record $(RECORDS)/cifar.json

choices: $(READY)
	$(BIN)/python benchmarks/choices.py --record $(RECORDS)/choices.json

probes: $(READY)
	$(BIN)/python benchmarks/probes.py --record $(RECORDS)/probes.json

examples: $(READY)
	$(BIN)/python benchmarks/examples.py --record $(RECORDS)/examples.json

checks: $(READY)
	$(BIN)/python benchmarks/checks.py --record $(RECORDS)/checks.json
	$(BIN)/python benchmarks/checks.py --fits --record $(RECORDS)/checks.json

pairs: $(READY)
	$(BIN)/python benchmarks/pairs.py --record $(RECORDS)/pairs.json

lasting: $(READY)
	$(BIN)/python benchmarks/lasting.py --record $(RECORDS)/lasting.json

quality: $(READY)
	$(BIN)/python benchmarks/quality.py --record $(RECORDS)/quality.json --figure docs/quality.png

external: $(READY)
	$(BIN)/python benchmarks/external.py --record $(RECORDS)/external.json

# BitBudget is needed for this table only; it is one small package without further ones.
budget: $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps bitbudget==0.3.1
	$(BIN)/python benchmarks/budget.py --record $(RECORDS)/bitbudget.json

crossmodal: $(READY)
	$(BIN)/python benchmarks/crossmodal.py --record $(RECORDS)/crossmodal.json

signs: $(READY)
	$(BIN)/python benchmarks/pca_signs.py

search: $(READY)
	$(BIN)/python benchmarks/search.py --record $(RECORDS)/search.json
	$(BIN)/python benchmarks/rerank.py --record $(RECORDS)/rerank.json

# The service under load, on loopback: a few minutes, on an idle machine.
load: $(READY)
	$(BIN)/python benchmarks/service.py --record $(RECORDS)/service.json

# One hostile client of each kind beside good ones: five minutes, on an idle machine.
hostile: $(READY)
	$(BIN)/python benchmarks/hostile.py --record $(RECORDS)/hostile.json

benchmark: $(READY)
	$(BIN)/python benchmarks/authors_size.py --record $(RECORDS)/authors_size.json

docs: $(READY)
	$(BIN)/mkdocs build --strict

# All figures of README and documentation whose records exist.
tables: $(READY)
	$(BIN)/python docs/_hooks/measured.py

# What the code on the pages prints: a few minutes.
docs-outputs: $(READY)
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python docs/_hooks/outputs.py

format: $(READY)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# An incomplete environment has no .ready, so an interrupted set-up is repeated.
$(READY): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit("bridgehash needs Python 3.11 or newer; run make PYTHON=python3.11 ...") if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

$(MILVUS)/.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(MILVUS)
	$(MILVUS)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[milvus,search,test]'
	$(MILVUS)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps milvus==2.3.5
	touch $@

$(NETWORKS)/.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(NETWORKS)
	$(NETWORKS)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[images,text,timm,open-clip,sentence-transformers,model2vec,onnx,test]'
	touch $@

$(OLDEST)/.ready: pyproject.toml tests/oldest.py
	$(PYTHON) -m venv $(OLDEST)
	$(PYTHON) tests/oldest.py $(OLDEST_EXTRAS) > $(OLDEST)/oldest.txt
	$(OLDEST)/bin/python -m pip install --quiet --disable-pip-version-check -c $(OLDEST)/oldest.txt -e '.[test,$(subst $(space),$(comma),$(OLDEST_EXTRAS))]'
	touch $@

clean:
	rm -rf $(VENV) .venv-3.* $(MILVUS) $(OLDEST) $(NETWORKS) build dist site demo artifacts .mypy_cache .ruff_cache .pytest_cache .hypothesis *.egg-info
