# P-values of the first feature by both methods of ranger's importance_pvalues, as JSON: {"method": [p, seconds]}.
suppressPackageStartupMessages(library(ranger))
arguments <- commandArgs(trailingOnly = TRUE)
data <- read.csv(arguments[1])
data$y <- factor(data$y)
seed <- as.integer(arguments[2])
started <- proc.time()[["elapsed"]]
forest <- ranger(y ~ ., data, num.trees = 100, importance = "impurity_corrected", num.threads = 1, seed = seed)
altmann <- importance_pvalues(
  forest, method = "altmann", num.permutations = 39, formula = y ~ ., data = data, num.threads = 1, seed = seed
)
altmann_seconds <- proc.time()[["elapsed"]] - started
found <- list(sprintf('"altmann, 39 refits": [%.6f, %.3f]', altmann[1, "pvalue"], altmann_seconds))
# Needs scores that are not positive; without any it has no answer.
janitza <- tryCatch(
  suppressWarnings(importance_pvalues(forest, method = "janitza")),
  error = function(problem) NULL
)
if (!is.null(janitza)) found <- c(found, sprintf('"janitza": [%.6f, 0]', janitza[1, "pvalue"]))
cat("{", paste(found, collapse = ", "), "}\n", sep = "")
