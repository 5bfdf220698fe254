"""python train.py [--preset cups] [--flags]: the door to minprm/commands/train.py."""

import sys

from minprm.commands.train import main

if __name__ == "__main__":
    main(sys.argv[1:])
