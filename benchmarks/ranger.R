# What does corrected impurity importance add to a fit of R's ranger, with one thread?
# Rscript ranger.R ROWS FEATURES TREES DEPTH (0: no limit); prints the seconds that it adds.
suppressMessages(library(ranger))
given <- as.integer(commandArgs(trailingOnly = TRUE))
set.seed(0)
x <- matrix(rnorm(given[1] * given[2]), given[1])
colnames(x) <- paste0("x", seq_len(given[2]))
y <- factor(x[, 1] + x[, 2] * x[, 3] + rnorm(given[1]) > 0)
fit <- function(importance) {
    start <- Sys.time()
    ranger(x = x, y = y, num.trees = given[3], max.depth = given[4], importance = importance, num.threads = 1,
           verbose = FALSE)
    as.numeric(Sys.time() - start, units = "secs")
}
added <- c()
elapsed <- 0
while (length(added) == 0 || (length(added) < 15 && elapsed < 1)) {  # small fits several times
    none <- fit("none")
    corrected <- fit("impurity_corrected")
    added <- c(added, corrected - none)
    elapsed <- elapsed + none + corrected
}
cat(median(added), "\n")
