"""The scores with all that belongs to them: table, pictures, files."""
