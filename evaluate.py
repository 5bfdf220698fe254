"""python evaluate.py CHECKPOINT --world cups: the door to minprm/commands/evaluate.py."""

import sys

from minprm.__main__ import main

if __name__ == "__main__":
    main(["evaluate", *sys.argv[1:]])
