# P-values of all columns by ranger's importance_pvalues: CPU seconds and a p-value each, or "none" where there is no answer.
# Usage: Rscript ranger.R altmann|janitza FILE TREES SEED; the target is the column `target`, classes are words.
suppressPackageStartupMessages(library(ranger))
arguments <- commandArgs(trailingOnly = TRUE)
method <- arguments[1]
data <- read.csv(arguments[2], stringsAsFactors = TRUE)
trees <- as.integer(arguments[3])
seed <- as.integer(arguments[4])
started <- sum(proc.time()[c("user.self", "sys.self")])
forest <- ranger(
  target ~ ., data, num.trees = trees, importance = "impurity_corrected", num.threads = 1, seed = seed
)
if (method == "janitza" && all(forest$variable.importance > 0)) {
  cat("none\n")
  quit()
}
set.seed(seed)
found <- suppressWarnings(importance_pvalues(
  forest, method = method, num.permutations = 50, formula = target ~ ., data = data, num.threads = 1
))
seconds <- sum(proc.time()[c("user.self", "sys.self")]) - started
cat(seconds, sprintf("%.6g", found[paste0("x", seq_len(ncol(data) - 1) - 1), "pvalue"]), "\n")
