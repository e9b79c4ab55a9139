"""Standard errors, tests, intervals and corrections for many tests, from the contributions of single rows."""
