"""Tools, past calls and results to text: rendering, history, escaping of markers."""
