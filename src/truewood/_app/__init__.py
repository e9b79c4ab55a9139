"""The browser app, served on this computer only: upload a table, read its report."""
