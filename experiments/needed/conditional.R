# Conditional permutation importance of party's cforest, for data sets in files: number, CPU seconds of the fit and of the scores, and a score a column.
# Usage: Rscript conditional.R FOLDER TREES; FOLDER holds 0.csv, 1.csv, ... with the target in the column `target`.
suppressPackageStartupMessages(library(party))
arguments <- commandArgs(trailingOnly = TRUE)
for (file in list.files(arguments[1], pattern = "^[0-9]+[.]csv$")) {
  data <- read.csv(file.path(arguments[1], file))
  set.seed(as.integer(sub(".csv", "", file)))
  started <- proc.time()[["user.self"]]
  forest <- cforest(target ~ ., data = data, controls = cforest_unbiased(ntree = as.integer(arguments[2]), mtry = 6))
  fitted <- proc.time()[["user.self"]]
  values <- varimp(forest, conditional = TRUE)
  seconds <- proc.time()[["user.self"]] - fitted
  cat(sub(".csv", "", file), sprintf("%.3f", fitted - started), sprintf("%.3f", seconds), sprintf("%.17g", values), sep = ",")
  cat("\n")
}
