"""All measurements: ``python -m bench``, or some by name: ``python -m bench encoder startup``."""

import argparse
from importlib import import_module

from bench.timing import machine

NAMES = (
    "startup encoder transformer cells tagger epoch gradients nwi encoding tricks "
    "embedding grid "
    "batched cost front_page"
).split()

if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"of a measurement: {', '.join(NAMES)}"
    )
    names = parser.parse_args().names
    if unknown := set(names) - {*NAMES}:
        parser.error(
            f"there is no measurement {', '.join(sorted(unknown))}; choose some of "
            f"{', '.join(NAMES)}"
        )
    print(machine())
    for name in names or NAMES:
        print(f"\n{name}: {import_module(f'bench.{name}').__doc__.splitlines()[0]}")
        import_module(f"bench.{name}").main()
