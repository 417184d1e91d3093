"""All measurements: ``python -m bench``, or some by name: ``python -m bench encoder startup``."""

import sys
from importlib import import_module

from bench.timing import machine

NAMES = (
    "startup encoder transformer cells tagger epoch gradients nwi encoding learnability embedding grid "
    "batched front_page"
).split()

if __name__ == "__main__":
    print(machine())
    for name in sys.argv[1:] or NAMES:
        print(f"\n{name}: {import_module(f'bench.{name}').__doc__.splitlines()[0]}")
        import_module(f"bench.{name}").main()
