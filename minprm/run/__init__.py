"""What a method needs of a run: noise, stage ids, snapshots, batches played ahead, Ctrl-C."""
