"""Where the data folders and the user's cache are. Never depends on the working directory, unless a person
types a relative `--cache-dir` there.
"""

import errno
import os
import stat
import sys
from functools import cache
from pathlib import Path

from autotune.errors import AutotuneError

_PACKAGE = Path(__file__).resolve().parent
_NAME = "wgsl-autotune"
"""Of the user's cache, below the folder that the platform has for caches."""
VARIABLE = "AUTOTUNE_CACHE_DIR"
"""Of the environment, names the user's cache."""
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

    Raises AutotuneError where the home or working folder that this depends on is not known, and where the
    variable holds a relative path.
    """
    if override:
        return expanded(override, "--cache-dir")
    variable = os.environ.get(VARIABLE)
    if variable:
        if not variable.startswith("~") and not Path(variable).is_absolute():
            raise AutotuneError(
                f"{VARIABLE} {variable}: it is relative, and would name another cache in each working "
                "directory; give an absolute path"
            )
        return expanded(variable, VARIABLE)
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
        if override or os.environ.get(VARIABLE):
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


def check_named(override: Path | None) -> None:
    """Raise AutotuneError where `override`, or else the variable, names what can be no directory: a look-up
    would find nothing there, and say nothing."""
    if not override and not os.environ.get(VARIABLE):
        return
    folder = user_cache_dir(override)
    reason: str | None = os.strerror(errno.ENOTDIR)
    try:
        if stat.S_ISDIR(folder.stat().st_mode):
            return
    except OSError as error:
        if error.errno not in (errno.ENOTDIR, errno.ELOOP):
            return  # there is none yet; or it is told about where it is read or written
        reason = error.strerror
    option = "--cache-dir" if override else VARIABLE
    raise AutotuneError(f"{option} {folder}: no directory can be there ({reason}); name another")
