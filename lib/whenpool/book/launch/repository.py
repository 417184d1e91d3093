"""Where the launch buttons find the repository."""

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import yaml

_GITHUB = re.compile(
    r"(?:https://(?:[^@/]+@)?|ssh://git@|git@)github\.com[/:](?P<name>[\w.-]+/[\w.-]+?)(?:\.git)?/?"
)


def configured(root: Path) -> dict[str, str]:
    """The entry ``repository`` of a clone's ``_config.yml``: ``url`` and ``branch``."""
    return yaml.safe_load((root / "_config.yml").read_text("utf-8"))["repository"]


def with_own_repository(config: dict[str, Any], root: Path) -> dict[str, Any]:
    """A book's configuration whose buttons open this clone's own repository, where that is on GitHub:
    what ``GITHUB_REPOSITORY`` (set by its workflows) or the remote "origin" names, so that the buttons
    of a fork open the fork; else the one that is configured."""
    name = os.environ.get("GITHUB_REPOSITORY") or _origin(root)
    if not name or not re.fullmatch(r"[\w.-]+/[\w.-]+", name):
        return config
    return config | {"repository": config["repository"] | {"url": f"https://github.com/{name}"}}


def _origin(root: Path) -> str | None:
    """Owner and name of the remote "origin", where it is on GitHub."""
    if not (root / ".git").exists():  # a folder inside of another's clone
        return None
    try:
        said = subprocess.run(
            ["git", "remote", "get-url", "origin"], cwd=root, capture_output=True, text=True, check=False
        )
    except OSError:  # no git here
        return None
    found = _GITHUB.fullmatch(said.stdout.strip())
    return found["name"] if found else None
