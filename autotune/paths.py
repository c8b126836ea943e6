"""Where the data folders and the user's cache are. Never depends on the working directory."""

import os
import sys
from functools import cache
from pathlib import Path

from autotune.errors import AutotuneError

_PACKAGE = Path(__file__).resolve().parent
_NAME = "wgsl-autotune"
"""Of the user's cache, below the folder that the platform has for caches."""
_NOWHERE = Path(os.devnull) / _NAME
"""A folder that can never exist: nothing lies below a file."""


@cache
def data_root() -> Path:
    """The folder that holds `templates/`, `search_spaces/` and `cache/`.

    In a wheel they are packed into `autotune/_data`; in a checkout (editable or bare)
    they lie beside the package.
    """
    packed = _PACKAGE / "_data"
    return packed if packed.is_dir() else _PACKAGE.parent


def templates_dir() -> Path:
    """Folder of the WGSL templates."""
    return data_root() / "templates"


def search_spaces_dir() -> Path:
    """Folder of the search-space TOML files."""
    return data_root() / "search_spaces"


def shipped_cache_dir() -> Path:
    """Folder of the shipped database, read-only at run time."""
    return data_root() / "cache"


def user_cache_dir(override: str | Path | None = None) -> Path:
    """The user's cache: `override`, else `$AUTOTUNE_CACHE_DIR`, else the platform's cache folder.

    Raises AutotuneError where the home or working folder that this depends on is not known.
    """
    chosen = override or os.environ.get("AUTOTUNE_CACHE_DIR")
    if chosen:
        return expanded(chosen, "--cache-dir" if override else "AUTOTUNE_CACHE_DIR")
    usual = _linux_cache()
    if usual is not None:
        return usual
    from platformdirs import user_cache_path

    try:
        root = user_cache_path(_NAME, appauthor=False)
    except RuntimeError:  # from newer releases; older ones leave the ~ in place
        root = Path()
    if not root.is_absolute():
        raise AutotuneError(
            "the home folder is not known, so neither is the cache; "
            "name a directory with --cache-dir or AUTOTUNE_CACHE_DIR"
        )
    return root


def _linux_cache() -> Path | None:
    """Where nearly every Linux user's cache is, or None where that takes more than two variables to tell.

    The same as platformdirs finds, whose import takes longer than the look-up itself.
    """
    chosen = os.environ.get("XDG_CACHE_HOME")
    base = Path(chosen) if chosen else Path(os.environ.get("HOME", ""), ".cache")
    android = hasattr(sys, "getandroidapilevel") or "ANDROID_ROOT" in os.environ
    return base / _NAME if base.is_absolute() and sys.platform == "linux" and not android else None


def user_cache_to_read(override: str | Path | None = None) -> Path:
    """The user's cache for a look-up: one without any results where nobody named it and no home is known."""
    try:
        return user_cache_dir(override)
    except AutotuneError:
        if override or os.environ.get("AUTOTUNE_CACHE_DIR"):
            raise
        return _NOWHERE


def expanded(folder: str | Path, option: str) -> Path:
    """A folder that a person named, as an absolute path. Raises AutotuneError that names the option."""
    try:
        return Path(folder).expanduser().absolute()
    except RuntimeError as error:
        raise AutotuneError(f"{option} {folder}: whose home folder that is, is not known") from error
    except OSError as error:
        raise AutotuneError(
            f"{option} {folder}: the working directory it starts from is gone ({error.strerror or error}); "
            "give an absolute path"
        ) from error
