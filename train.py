"""python train.py [--preset cups] [--flags]: the door to minprm/commands/train.py."""

import sys

from minprm.__main__ import main

if __name__ == "__main__":
    main(["train", *sys.argv[1:]])
