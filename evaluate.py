"""python evaluate.py CHECKPOINT --world cups: the door to minprm/commands/evaluate.py."""

import sys

from minprm.commands.evaluate import main

if __name__ == "__main__":
    main(sys.argv[1:])
