"""What a run needs beside the method: flags, files, tables, evaluation."""
