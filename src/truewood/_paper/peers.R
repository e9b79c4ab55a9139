# Scores data sets in files by cforest or ranger; prints one line per data set and feature.
# Usage: Rscript peers.R METHOD FOLDER TREES DEPTH MINCRITERION SEED...
# FOLDER contains 0.csv, 1.csv, ... with the column `target`; one SEED per file; DEPTH 0 means no limit.
arguments <- commandArgs(trailingOnly = TRUE)
method <- arguments[1]
folder <- arguments[2]
trees <- as.integer(arguments[3])
depth <- as.integer(arguments[4])
mincriterion <- as.numeric(arguments[5])
seeds <- as.integer(arguments[-(1:5)])
suppressPackageStartupMessages(library(if (method == "cforest") "party" else "ranger", character.only = TRUE))

score <- function(data) {
  if (method == "cforest") {
    controls <- cforest_control(teststat = "max", testtype = "Teststatistic", mincriterion = mincriterion, ntree = trees)
    varimp(cforest(target ~ ., data = data, controls = controls))
  } else {
    ranger(target ~ ., data = data, num.trees = trees, max.depth = depth, importance = "impurity_corrected",
           num.threads = 1, seed = sample.int(.Machine$integer.max, 1))$variable.importance
  }
}

files <- list.files(folder, pattern = "^[0-9]+[.]csv$")
for (file in files[order(as.integer(sub(".csv", "", files)))]) {
  data <- read.csv(file.path(folder, file), stringsAsFactors = TRUE)
  number <- as.integer(sub(".csv", "", file))
  set.seed(seeds[number + 1])
  values <- score(data)
  cat(sprintf("%d,%s,%.17g\n", number, names(values), values), sep = "")
}
