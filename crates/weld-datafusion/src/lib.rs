//! DataFusion physical plans compiled through Weld.
