"""What a run needs beside the method: log, table, snapshots, noise, batches played ahead."""
