// The page only shows the API and sends no requests: an API key does not belong in a browser.
if (window.SwaggerUIBundle) {
  SwaggerUIBundle({
    url: '/openapi.json',
    dom_id: '#reference',
    deepLinking: true,
    docExpansion: 'list',
    defaultModelsExpandDepth: 0,
    filter: true,
    supportedSubmitMethods: [],
    validatorUrl: null,
  })
}
