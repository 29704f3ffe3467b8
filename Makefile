# The front door. Everything is made inside the repository: the virtual environment in .venv, the
# C++ build in build, the libraries in src/softnpu/toolkit/lib64.

# A CPython 3.11 (default: python3.11, else python3).
PYTHON ?=
# Where the CPU build of torch comes from (default: where pip looks, else PyTorch's own index).
TORCH_INDEX_URL ?=
export TORCH_INDEX_URL
TORCH_VERSION := 2.13.0

VENV := .venv
BIN := $(VENV)/bin
CONSTRAINTS := $(VENV)/constraints.txt
READY := $(VENV)/ready
SOFTNPU := $(BIN)/softnpu
EXAMPLE := examples/08-ascend-aclgraph/aclgraph_decode_block.py

.DEFAULT_GOAL := help
.PHONY: help setup build demo test bench sanitize wheel wheel-check lint format clean

help: ## Print this
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(READY) ## Make .venv with everything that is needed

$(READY): pyproject.toml Makefile src/softnpu.pth tools/dev_install.py tools/install_torch.sh
	@set -e; python=$$(sh tools/find_python.sh "$(PYTHON)"); \
	  echo "setting up $(VENV) with $$python (some minutes the first time)"; \
	  [ -x $(BIN)/python ] || "$$python" -m venv $(VENV)
	@# torch first and alone, then held fast, so that nothing else brings in another build of it.
	@tools/install_torch.sh $(BIN)/python $(TORCH_VERSION)
	@$(BIN)/python -c 'from importlib.metadata import version; print("torch==" + version("torch"))' \
	  > $(CONSTRAINTS)
	@$(BIN)/python tools/dev_install.py $(CONSTRAINTS)
	@touch $@

build/build.ninja: $(READY)
	@$(BIN)/cmake -S . -B build -G Ninja --log-level=WARNING \
	  -DPython_EXECUTABLE="$(abspath $(BIN)/python)" \
	  -DCMAKE_MAKE_PROGRAM="$(abspath $(BIN)/ninja)"
	@touch $@

build: build/build.ninja ## Compile the C++ libraries
	@$(BIN)/cmake --build build

demo: build ## Run example 08: a decode step with TileLang kernels, captured and replayed
	$(SOFTNPU) run $(EXAMPLE) $(ARGS)

test: build ## Run every test
	$(SOFTNPU) run -m pytest $(ARGS)

bench: build ## Measure: ratios to CPU PyTorch, then what the engine costs
	$(SOFTNPU) run bench/run.py $(ARGS)
	build/tests/engine/softnpu_engine_bench

wheel: $(READY) ## Build dist/softnpu-*.whl
	@rm -f dist/*.whl
	$(BIN)/python -m build --wheel --no-isolation --outdir dist .

wheel-check: wheel ## Install the wheel into an empty environment and use it there
	tools/check_wheel.sh dist/softnpu-*.whl $(CONSTRAINTS)

sanitize: $(READY) ## Run the engine's tests under the address and the thread sanitizer
	@set -e; for pair in asan:address tsan:thread; do \
	  folder=build-$${pair%%:*}; \
	  $(BIN)/cmake -S . -B $$folder -G Ninja --log-level=WARNING \
	    -DPython_EXECUTABLE="$(abspath $(BIN)/python)" \
	    -DCMAKE_MAKE_PROGRAM="$(abspath $(BIN)/ninja)" \
	    -DSOFTNPU_SANITIZE=$${pair##*:} -DSOFTNPU_TOOLKIT_DIR="$(abspath .)/$$folder/toolkit"; \
	  $(BIN)/cmake --build $$folder --target softnpu_engine_tests; \
	  SOFTNPU_ENGINE_TESTS="$(abspath .)/$$folder/tests/engine/softnpu_engine_tests" \
	    $(BIN)/python -m pytest tests/engine $(ARGS); \
	done

lint: $(READY) ## Check style, types and layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy src
	$(BIN)/python tools/check_layers.py
	git ls-files '*.h' '*.cpp' | xargs -r $(BIN)/clang-format --dry-run -Werror

format: $(READY) ## Bring all sources into the house style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	git ls-files '*.h' '*.cpp' | xargs -r $(BIN)/clang-format -i

clean: ## Remove what the build made; .venv stays
	rm -rf build build-asan build-tsan build-wheel dist .venv-wheel src/softnpu/toolkit/lib64
