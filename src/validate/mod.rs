//! Floor 16: predicts measured runs anew and sums up the errors.
