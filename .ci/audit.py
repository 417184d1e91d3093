"""Look the installed packages up among known vulnerabilities: one line, and exit code 1 for a
finding.

Where the service (osv.dev) cannot be reached there is nothing to say, which is a note and no
failure.
"""

import json
import re
import subprocess
import sys

COMMAND = (
    "pip_audit",
    "--local",
    "--skip-editable",
    "--vulnerability-service",
    "osv",
    "--format",
    "json",
    "--progress-spinner",
    "off",
    "--timeout",
    "15",
)
AWAY = re.compile(
    r"ConnectionError|ConnectTimeout|ReadTimeout|HTTPError|ServiceError|ProxyError|SSLError"
)


def verdict(code: int, output: str, errors: str) -> tuple[int, str]:
    """The exit code and the line, from what pip-audit gave and said."""
    try:
        packages = json.loads(output)["dependencies"]
    except (ValueError, KeyError, TypeError):
        if AWAY.search(errors):
            return 0, "note: nothing was audited, osv.dev cannot be reached"
        last = (errors.strip().splitlines() or [f"exit code {code}"])[-1]
        return 1, f"pip-audit failed: {last}"
    found = [
        f"{package['name']} {package['version']} has {known['id']}"
        + (f", mended in {known['fix_versions'][0]}" if known["fix_versions"] else "")
        for package in packages
        for known in package.get("vulns", [])
    ]
    if found:
        return 1, "vulnerable: " + "; ".join(found)
    audited = sum("skip_reason" not in package for package in packages)
    if not audited:
        return 0, "note: nothing was audited, the service knows none of the packages"
    return 0, f"{audited} packages without a known vulnerability"


def main() -> int:
    """Run pip-audit on this environment."""
    done = subprocess.run(
        [sys.executable, "-m", *COMMAND], capture_output=True, text=True, check=False
    )
    code, line = verdict(done.returncode, done.stdout, done.stderr)
    print(line)
    return code


if __name__ == "__main__":
    sys.exit(main())
