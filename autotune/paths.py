"""Where the data folders and the user's cache are. Never depends on the working directory."""

import os
from functools import cache
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


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
    """The user's cache: `override`, else `$AUTOTUNE_CACHE_DIR`, else the platform's cache folder."""
    chosen = override or os.environ.get("AUTOTUNE_CACHE_DIR")
    if chosen:
        return Path(chosen).expanduser().absolute()
    from platformdirs import user_cache_path  # only reached without an override

    return user_cache_path("wgsl-autotune", appauthor=False)
