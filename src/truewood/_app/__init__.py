"""A page in the browser, served on this computer only: a table in, a report out."""
