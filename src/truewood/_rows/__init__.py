"""Which rows score which tree, and the guard: is this the data of the fit?"""
