"""The inspector: captures requests while they run, and shows them in the browser."""
