// Swagger UI would ask a validator on the web about the document: validatorUrl null keeps it here.
SwaggerUIBundle({ url: "/openapi.json", dom_id: "#api", validatorUrl: null, deepLinking: true });
