#!/usr/bin/env bash
# Installs R with the packages that `truewood reproduce` compares with (Debian and its relatives; needs root).
set -euo pipefail
apt-get update -qq
apt-get install -y -qq --no-install-recommends r-base-core r-cran-party r-cran-ranger
Rscript -e 'for (package in c("party", "ranger")) cat(package, format(packageVersion(package)), "\n")'
