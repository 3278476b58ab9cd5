//! The model and the cluster of a plan document, made again from what it holds.

use super::document::Plan;
use crate::cluster::{Cluster, ClusterDocument};
use crate::model::{Model, ModelError, layer_graph};

impl Plan {
    /// The model that the plan is for.
    ///
    /// # Errors
    /// If its layer graph is none.
    pub fn made_model(&self) -> Result<Model, ModelError> {
        let path = "model.graph".to_owned();
        let document = serde_json::from_value(self.model.graph.clone())
            .map_err(|error| ModelError::NotALayerGraph { path, fault: error.into() })?;
        layer_graph::model(document)
    }

    /// The cluster that the plan is for.
    ///
    /// # Errors
    /// If its document is none, in words.
    pub fn made_cluster(&self) -> Result<Cluster, String> {
        let document: ClusterDocument =
            serde_json::from_value(self.cluster.document.clone()).map_err(|error| error.to_string())?;
        document.cluster().map_err(|error| error.to_string())
    }
}
