# make setup   what the program needs: a Vulkan driver where there is none, and .venv
# make demo    tune a 1024 x 1024 x 1024 GEMM on the GPU at hand
# make test    the tests, after installing what they need
# make lint    ruff and mypy
# make clean   remove .venv and everything built
#
# Another interpreter: make PYTHON=python3.13 setup

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin

# $(call install,PACKAGE,WHAT IT IS): a Debian package, or a line that says what to do.
# Lists are fetched first, since a fresh machine has none; a broken third-party list is no obstacle.
apt = $(if $(filter-out 0,$(shell id -u)),sudo) env DEBIAN_FRONTEND=noninteractive \
	apt-get -qq -o DPkg::Lock::Timeout=300
install = { command -v apt-get >/dev/null && echo "Installing $(1) with apt-get" && { $(apt) update; \
	$(apt) install --yes --no-install-recommends $(1) </dev/null >/dev/null; }; } \
	|| { echo "$(2) is missing and could not be installed here;" \
	"please install it by hand (Debian: apt-get install $(1))." >&2; false; }

# Debian splits the venv module off, one package for each Python.
venv_package = $(shell $(PYTHON) -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')

# A driver announces itself by a JSON file; the loader is a library of its own.
has_vulkan = { ls /usr/share/vulkan/icd.d/*.json || ls /etc/vulkan/icd.d/*.json \
	|| test -n "$$VK_DRIVER_FILES$$VK_ICD_FILENAMES"; } >/dev/null 2>&1 \
	&& $(PYTHON) -c 'import ctypes; ctypes.CDLL("libvulkan.so.1")' 2>/dev/null

.PHONY: help setup vulkan demo test lint clean

help:
	@sed -n 's/^# make/make/p' Makefile

setup: vulkan $(VENV)/.installed

# Only Linux needs one (macOS has Metal). Rendering and look-up work without, so this does not stop.
vulkan:
	@test "$$(uname)" != Linux || { $(has_vulkan); } \
		|| $(call install,mesa-vulkan-drivers,A Vulkan driver) || true

$(VENV)/.installed: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "Python 3.11 or newer is needed: make PYTHON=python3.13 setup" >&2; false; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null \
		|| $(call install,$(venv_package),Python's venv module)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -e .
	@touch $@

$(VENV)/.dev: $(VENV)/.installed
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $@

demo: setup
	$(BIN)/autotune gemm --size 1024

# The tests run kernels on two Vulkan drivers for the CPU, whatever GPU there is: Mesa's lavapipe,
# and SwiftShader with its browser-like limits, for which chromium-common (not the browser) is enough.
# One test has several processes share a search through PostgreSQL, on a server of its own.
# Where a driver cannot be had, leave it out: AUTOTUNE_TEST_STACKS=naga-lavapipe make test
test: setup $(VENV)/.dev
	@ls /usr/share/vulkan/icd.d/lvp_icd*.json >/dev/null 2>&1 \
		|| $(call install,mesa-vulkan-drivers,Mesa's lavapipe) || true
	@test -e /usr/lib/chromium/vk_swiftshader_icd.json \
		|| $(call install,chromium-common,SwiftShader) || true
	@ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || command -v initdb >/dev/null \
		|| $(call install,postgresql,PostgreSQL) || true
	$(BIN)/python -m pytest

lint: $(VENV)/.dev
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
