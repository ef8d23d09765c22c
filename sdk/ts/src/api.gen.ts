// Code generated from the OpenAPI document by generate.mjs. DO NOT EDIT.

export interface paths {
    "/v1/endpoints": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** List endpoints */
        get: operations["listEndpoints"];
        put?: never;
        /**
         * Create an endpoint
         * @description Creates an endpoint with its destinations. Only this response shows the signing secrets of the new destinations
         *     (`signing.secret`). Give `ingest_url` to the provider.
         */
        post: operations["createEndpoint"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/endpoints/validate": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Validate a new endpoint
         * @description Validates the body of a `POST /v1/endpoints`, with the same errors and warnings, and creates nothing. It remembers
         *     no `Idempotency-Key` and counts as a read for the rate limit; the key needs the scope `read_write`.
         */
        post: operations["validateEndpoint"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/endpoints/{endpoint_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Read an endpoint */
        get: operations["readEndpoint"];
        put?: never;
        post?: never;
        /**
         * Delete an endpoint
         * @description Deletes an endpoint. After the response it accepts no events. Queued deliveries end `skipped`
         *     (`endpoint_deleted`); requests in flight may finish. Its events stay readable until their retention ends.
         */
        delete: operations["deleteEndpoint"];
        options?: never;
        head?: never;
        /**
         * Change an endpoint
         * @description Changes an endpoint by JSON merge: members that are left out stay, `null` resets or removes. Arrays replace the
         *     whole set. An entry of `destinations` matches a current destination by `id`, else by an equal `url`, else it is
         *     new. A destination that no entry matches is removed with a warning, and its queued deliveries end `skipped`
         *     (`destination_deleted`). The change is applied completely or not at all. You can send back what you read: masks
         *     mean unchanged, and read-only members are ignored.
         */
        patch: operations["updateEndpoint"];
        trace?: never;
    };
    "/v1/endpoints/{endpoint_id}/validate": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Validate a change of an endpoint
         * @description Validates the body of a `PATCH /v1/endpoints/{endpoint_id}`, with the same errors and warnings, and changes
         *     nothing. It remembers no `Idempotency-Key` and counts as a read for the rate limit; the key needs the scope
         *     `read_write`.
         */
        post: operations["validateEndpointChange"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/endpoints/{endpoint_id}/transformation/preview": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Preview a transformation
         * @description Shows what operations do to a sample, step by step. It stores nothing, sends nothing and remembers no
         *     `Idempotency-Key`; a read-only key may use it, 20 times a second. With the id of an event, such as one of the
         *     last 20 (`GET /v1/events?endpoint_id=…&limit=20`), credentials in its body are masked first.
         */
        post: operations["previewTransformation"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/endpoints/{endpoint_id}/filter/preview": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Preview a filter
         * @description Says which of the newest events of the endpoint, up to 100, pass a filter, with credentials in them masked. It stores
         *     nothing and remembers no `Idempotency-Key`; a read-only key may use it, 20 times a second.
         */
        post: operations["previewFilter"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/endpoints/{endpoint_id}/transformation/versions": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List the versions of a transformation
         * @description The newest 50 versions of the endpoint's transformation, or of that of a destination, with their operations, newest
         *     first, on one page. To restore one, send its `transformation` back in a PATCH: that makes a new version. An
         *     endpoint and its destinations keep 200 versions together, and operations of earlier ones up to 64 KiB; older
         *     versions only say when and by whom they were made.
         */
        get: operations["listTransformationVersions"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/endpoints/{endpoint_id}/reconciliation": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Read what was fetched from the provider
         * @description How the last look at the provider's API for events that it could not deliver has ended, for an endpoint with
         *     `reconcile`. The times are null while none has ended, and without `reconcile`.
         */
        get: operations["getReconciliation"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/endpoints/{endpoint_id}/rotate-token": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Rotate the ingest URL
         * @description Creates a new `ingest_url`, which you give to the provider. The previous URL works until the overlap ends; an
         *     even older one stops working at once.
         */
        post: operations["rotateToken"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/endpoints/{endpoint_id}/test": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Send a test event
         * @description Stores a small event as the provider would send it, with the source `test`. It is delivered like every event and
         *     is not billed. It is signed like the provider's events if the endpoint has the provider's secret.
         */
        post: operations["testEndpoint"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/tenants": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** List tenants */
        get: operations["listTenants"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/tenants/{tenant_name}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Read a tenant */
        get: operations["readTenant"];
        /**
         * Create or replace a tenant
         * @description A tenant is a customer of yours. Its name in the path is your own, such as the id of the customer in your database.
         *     Settings that are left out get their defaults; endpoints and keys stay as they are.
         */
        put: operations["putTenant"];
        post?: never;
        /**
         * Delete a tenant
         * @description Revokes its keys and deletes its endpoints: their ingest URLs get 404, and deliveries that wait end. Stored events
         *     stay readable with a key of the account until their retention ends.
         */
        delete: operations["deleteTenant"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/tenants/{tenant_name}/keys": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** List the API keys of a tenant */
        get: operations["listTenantKeys"];
        put?: never;
        /**
         * Create an API key for a tenant
         * @description The key reaches the endpoints of the tenant with their events, replays and recovery jobs. Everything else of your
         *     account is 404 to it, and what concerns the whole account is 403. Only this response shows `key`.
         */
        post: operations["createTenantKey"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/tenants/{tenant_name}/keys/{key_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        /**
         * Revoke an API key of a tenant
         * @description Every node refuses the key from the response on.
         */
        delete: operations["revokeTenantKey"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/tenants/{tenant_name}/events": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Send an event to a tenant
         * @description Sends an event to the tenant's own endpoint, like `POST /v1/endpoints/{endpoint_id}/events`. The first event creates
         *     that endpoint, without destinations: the event is stored and can be replayed when there is one.
         */
        post: operations["sendToTenant"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/tenants/{tenant_name}/events/batch": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Send up to 1,000 events to a tenant
         * @description Like `POST /v1/endpoints/{endpoint_id}/events/batch`, to the tenant's own endpoint.
         */
        post: operations["sendBatchToTenant"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/tenants/{tenant_name}/test": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Send a test event to a tenant
         * @description Like `POST /v1/endpoints/{endpoint_id}/test`, to the tenant's own endpoint.
         */
        post: operations["testTenant"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/tenants/{tenant_name}/portal_links": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** List the portal links of a tenant */
        get: operations["listPortalLinks"];
        put?: never;
        /**
         * Create a link to the portal of a tenant
         * @description The portal has pages for the people of a tenant: destinations, deliveries with their reasons, replays, tests and
         *     signing secrets. Send the browser of a person there, or show the link in a frame of your page. It can be opened
         *     once; then it is a session. With `use` `api` there are no pages, but a token for calls from pages of your own. Only
         *     this response shows `url` or `token`.
         */
        post: operations["createPortalLink"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/tenants/{tenant_name}/portal_links/{link_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        /**
         * End a link to the portal or its session
         * @description Every node refuses it from the response on.
         */
        delete: operations["endPortalLink"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/event_types": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List event types
         * @description A key of a tenant sees those that are not internal.
         */
        get: operations["listEventTypes"];
        put?: never;
        /**
         * Create an event type
         * @description Describes a type of your events. An endpoint with `validate` compares the data of its events with the newest version
         *     of the schema. Events of types without a schema are accepted as they are.
         */
        post: operations["createEventType"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/event_types/import": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Import event types from an OpenAPI document
         * @description The body is an OpenAPI 3.1 document as JSON. Each entry of `webhooks` creates a type, or replaces its description and
         *     adds a version if the schema is another. A schema with the members `type`, `timestamp` and `data` is that of a whole
         *     delivery: the schema of `data` is taken. References are followed within the document only. What you have exported
         *     restores all versions. Nothing is changed if any entry is invalid.
         */
        post: operations["importEventTypes"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/event_types/openapi.json": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Export event types as an OpenAPI document
         * @description An OpenAPI 3.1 document with a webhook for each type, as your receivers get it. `x-eventrelay` has what OpenAPI has no
         *     words for, such as earlier versions; an import reads it.
         */
        get: operations["exportEventTypes"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/event_types/seen": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List the types of recent events
         * @description The types of the newest 1,000 events, also those that the catalogue does not have.
         */
        get: operations["readSeenEventTypes"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/event_types/{event_type_name}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Read an event type */
        get: operations["readEventType"];
        /**
         * Create or replace an event type
         * @description Settings that are left out get their defaults. Versions stay; a `schema` that is not the newest becomes the next one.
         */
        put: operations["putEventType"];
        post?: never;
        /**
         * Delete an event type
         * @description Events of the type are no longer validated.
         */
        delete: operations["deleteEventType"];
        options?: never;
        head?: never;
        /**
         * Change an event type
         * @description Changes the members that are sent. `schema` becomes the next version unless it is the newest already.
         */
        patch: operations["updateEventType"];
        trace?: never;
    };
    "/v1/settings/catalogue": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Read who may see the catalogue */
        get: operations["readCatalogueSettings"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        /** Change who may see the catalogue */
        patch: operations["updateCatalogueSettings"];
        trace?: never;
    };
    "/v1/endpoints/{endpoint_id}/destinations": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Add a destination
         * @description Adds a destination to an endpoint, which may have 50. Only this response shows its signing secret.
         */
        post: operations["createDestination"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/endpoints/{endpoint_id}/destinations/{destination_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        /**
         * Remove a destination
         * @description Removes a destination. The last one of an endpoint cannot be removed. Queued deliveries to it end `skipped` (`destination_deleted`).
         */
        delete: operations["deleteDestination"];
        options?: never;
        head?: never;
        /**
         * Change a destination
         * @description Changes a destination by JSON merge. `enabled: true` also clears the reason for which the service disabled it.
         *     After the response to `enabled: false` no node starts a delivery to it. Deliveries that wait end as skipped
         *     (`destination_disabled`), and enabling it does not bring them back: replay the events with the status `skipped` to
         *     send them. `paused` keeps them. A URL on another server is refused while
         *     the destination has headers with credentials, which would be sent there: send their values again, or `null`.
         */
        patch: operations["updateDestination"];
        trace?: never;
    };
    "/v1/endpoints/{endpoint_id}/destinations/{destination_id}/rotate_secret": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Rotate the signing secret
         * @description Creates a new signing secret. Deliveries carry the signatures of both secrets until the overlap ends. Only this response shows the new secret. At most two secrets sign: another rotation ends the overlap of the one before, and `warnings` says so.
         */
        post: operations["rotateSecret"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/endpoints/{endpoint_id}/destinations/{destination_id}/purge": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Purge the open deliveries of a destination
         * @description Ends the open deliveries of the destination: those of events received, and of replays started, before the given
         *     time. They end `skipped` (`purged`). After the response no node makes such a delivery. A repeat is harmless.
         *     `before` in the URL is refused.
         */
        post: operations["purgeDestination"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/endpoints/{endpoint_id}/destinations/{destination_id}/pull": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Pull events of a destination
         * @description Hands events of a destination with `pull` to a consumer. Each is leased to it for `lease_seconds`: it is delivered
         *     when the consumer acknowledges it, and delivered again when the lease ends. Several consumers share the events. The
         *     answer comes as soon as there are some, or empty after `wait`; it has up to 1 MiB of headers and bodies, or one
         *     event. A second pull of a consumer whose first one still waits gets a `conflict`. The key needs write access.
         */
        get: operations["pullEvents"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/endpoints/{endpoint_id}/destinations/{destination_id}/ack": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Acknowledge pulled events
         * @description Ends leases as delivered. The answer comes when that is recorded, and says for each attempt what became of it. A repeat is harmless.
         */
        post: operations["acknowledgeEvents"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/endpoints/{endpoint_id}/destinations/{destination_id}/consumers": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List the consumers of a destination
         * @description Shows who has pulled a destination within the last hour, newest first, and what they have leased.
         */
        get: operations["listConsumers"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/endpoints/{endpoint_id}/events": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Send an event
         * @description Stores an event and delivers it like one from a provider. Destinations receive the envelope
         *     `{"id","type","timestamp","data"}`; the bytes of `data` are not changed. Without an `Idempotency-Key` a repeat
         *     is stored as a new event. The request body may have up to `RELAY_MAX_BODY` bytes, 1 MiB by default.
         */
        post: operations["sendEvent"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/endpoints/{endpoint_id}/events/batch": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Send up to 1,000 events
         * @description Each event is validated and stored on its own; the response has the error of each refused one. The request may
         *     have up to 5 MiB. With an `Idempotency-Key`, a repeat stores the events that the first call could not store, and
         *     none twice. One request counts as one for the rate limit, regardless of its events.
         */
        post: operations["sendEvents"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/endpoints/{endpoint_id}/stream": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Stream the events of an endpoint
         * @description Sends events as server-sent events while they are accepted. The first item is `ready`. Each event accepted after
         *     it follows as `event`, once and in the order of the log; rejected events and duplicates are left out. To resume
         *     after an event, send its `id` as `Last-Event-ID`; this works on every node and within the retention. `gap` says
         *     since when events are missing, and why. After 15 s without an event a comment keeps the connection open. `end`
         *     says why the stream ends: `key_revoked`, `endpoint_deleted` or `shutdown`. A key may have five open streams on
         *     each node.
         *
         *     The schema describes one item of the stream. Its `data` is JSON on one line.
         */
        get: operations["streamEvents"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/events": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List events
         * @description Lists events, newest first. An event must match all filters. A filter may have several values, which are
         *     alternatives: repeat it, separate values by commas, or use `name[]`. An empty filter counts as absent; an
         *     unknown one is refused with 400.
         */
        get: operations["listEvents"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/events/counts": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Count events
         * @description Counts the newest events, at most 1,000, that match the filters, by status and by time. The answer is at most 10 s
         *     old. Searches (`q`, `body`, `header`) are not counted.
         */
        get: operations["countEvents"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/events/{event_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Read an event
         * @description Returns the event with its headers, body, deliveries and the newest 200 attempts. Their response bodies are cut to 1 KiB.
         */
        get: operations["readEvent"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/events/{event_id}/attempts": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** List all attempts of an event */
        get: operations["listAttempts"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/events/{event_id}/signature": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Explain the signature of an event
         * @description Computes the signature of a received event again, with the endpoint's current verification and the age that the
         *     signature had at the time of receipt. Shows what was signed, and for each secret the beginning of the signature
         *     that it makes. If the signature is not accepted, `findings` names probable causes: it tries other encodings and
         *     hashes, forms of the secret, ends of lines, ways to write the same JSON, and for Twilio other addresses.
         *
         *     A request of more than 64 KiB whose signature is rejected is not stored, so it cannot be explained.
         *     `invalid_state`: the event was sent through the API, its payload was erased, or its endpoint was deleted or
         *     verifies no signatures.
         */
        get: operations["explainEventSignature"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/events/{event_id}/payload": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        /**
         * Erase the payload of an event
         * @description Erases body, headers and query of the event, and headers and bodies of its attempts. The event stays listed with
         *     its outcomes and `payload_erased_at`. After the response no node shows the payload or starts to send it: open
         *     deliveries end `failed` (`payload_expired`), one that waits for a retry when that is due. A replay is refused,
         *     streams skip the event, and a search finds it only by its id. A request in flight may finish. A repeat changes nothing and returns the time of the first call.
         *
         *     The store rewrites its rows within minutes, as long as it is available. The log keeps its records of the event
         *     until they are trimmed: `RELAY_LOG_KEEP_MINUTES` after all earlier records are completed, and 30 days in the
         *     dead letter topic `dead`. Processing receipts stay, because the application reported them itself.
         */
        delete: operations["eraseEventPayload"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/events/{event_id}/processing": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Report whether the application processed an event
         * @description Call it after your transaction has committed or your background job has ended. Every change of the state is
         *     allowed, except away from `processed`: such a call is answered with 200 and `applied: false`, and the receipt
         *     stays as it is.
         */
        post: operations["reportProcessing"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/events/{event_id}/replay": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Replay one event
         * @description Queues the event again for every enabled destination of its endpoint, or for `destination_id` only. With
         *     `only_undelivered`, destinations are left out that have the event, or that it is still on its way to. The
         *     signature of a `rejected` event is verified again with the current secrets, regardless of its age. If its
         *     endpoint no longer verifies signatures, it is queued with a warning. Parameters in the URL are refused.
         */
        post: operations["replayEvent"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/replays": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** List replay runs */
        get: operations["listReplays"];
        put?: never;
        /**
         * Replay a selection
         * @description Queues every matching event again for each destination that is enabled now and whose filter matches, regardless
         *     of earlier outcomes. `destination_id` restricts the destinations, and so does `only_undelivered`: it leaves
         *     out those that have the event, or that it is still on its way to. Duplicates are left out. `queued` counts
         *     deliveries, not events. Parameters in the URL are refused.
         *
         *     **Rejected events** are selected too if their signature is valid with the current secrets, and are delivered
         *     with `relay-verification: verified`. Without `status` in the request a warning says how many they are; a
         *     `status` that does not contain `rejected` leaves them out. Only if `status` contains `rejected`, events are
         *     selected that were rejected for their age (`timestamp_outside_tolerance`) or whose endpoint no longer verifies
         *     signatures. Of rejected events with the same signed content one is selected.
         *
         *     The filters are at the top of the body or inside `filter`. `since` and at least one of `endpoint_id`,
         *     `destination_id`, `status`, `type` and `tenant` are required. A selection of more than 31 days, 100,000 deliveries or 1
         *     GiB of bodies (each counted for every delivery) is refused before anything is queued. So is a selection for
         *     which the service would have to read more than 100,000 events or 1 GiB to decide: rejected events, and events of
         *     destinations with body filters.
         *
         *     The deliveries are queued during the call. If it fails half-way, `error.run_id` and `error.queued` say how much
         *     was queued. The same call again starts a new run, unless it has the same `Idempotency-Key`: then it gets the
         *     first response and queues nothing. Only one replay at a time queues deliveries of an endpoint, and at most two
         *     of an account are counted at a time; others wait up to 5 s and then get 429.
         */
        post: operations["replayEvents"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/replays/{run_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Read a replay run */
        get: operations["readReplay"];
        put?: never;
        /**
         * Cancel a replay run
         * @description Cancels a run. Deliveries that were not sent end as `skipped` with the reason `run_stopped`, or get back the
         *     status that they had before the replay; requests that are being sent go on, but are not retried. A delivery that
         *     waits is skipped when it is due, at the latest within an hour. A run that is still queueing queues no more, and
         *     its own call answers 400 `invalid_state`. Cancelling a run again changes nothing.
         */
        post: operations["actOnReplay"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/recoveries": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** List recovery jobs */
        get: operations["listRecoveries"];
        put?: never;
        /**
         * Create a recovery job
         * @description Creates a job that will deliver again what has failed for good at an endpoint: the deliveries of events that
         *     were received from `since` until now and whose payload is still kept. Nothing is sent yet. The call waits up to
         *     2 s for the job to become `ready`. Send the action `canary` next. While deliveries of a job that was cancelled or
         *     stopped a moment ago are still queued or in flight to the same destination, the job is `preparing`: it waits for
         *     their results before it selects, for at most two minutes.
         */
        post: operations["createRecovery"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/recoveries/{recovery_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Read a recovery job */
        get: operations["readRecovery"];
        put?: never;
        /**
         * Start, continue or cancel a recovery job
         * @description `canary` sends the first five deliveries of a `ready` job. If all of them are skipped, for example as already
         *     delivered, it goes on with the next five, until one was sent or none is left. `continue` sends the rest of a job that is
         *     `awaiting_approval`. `cancel` ends a job that has not ended. An action that is already in effect changes
         *     nothing. While the endpoint or a destination of the job is paused, the job waits, at the longest until
         *     `deadline_at`, and `warnings` says so.
         */
        post: operations["actOnRecovery"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/recoveries/{recovery_id}/items": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** List the deliveries of a recovery job */
        get: operations["listRecoveryItems"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/drains": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** List log drains */
        get: operations["listDrains"];
        put?: never;
        /**
         * Create a log drain
         * @description Creates a drain. Give its `url` to the platform or log shipper that sends your lines, with POST or PUT: text,
         *     one JSON object a line, or JSON, plain or gzip. It answers 202 when what the lines leak is durable, and 5xx when
         *     the lines have to be sent again; what was stored before counts once. Requests of Vercel, Heroku, Amazon Data
         *     Firehose and Cloudflare Logpush are recognised, and answered as these expect: 200, to Firehose with `requestId`.
         */
        post: operations["createDrain"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/drains/{drain_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Read a log drain
         * @description Shows whether lines arrive: a request is visible in `last_received_at` and the counters within five seconds.
         */
        get: operations["readDrain"];
        put?: never;
        post?: never;
        /**
         * Delete a log drain
         * @description Its URL then answers 410. Its findings stay.
         */
        delete: operations["deleteDrain"];
        options?: never;
        head?: never;
        /**
         * Change or pause a log drain
         * @description Changes the members that are sent. While a drain is paused it answers 200 and drops the lines. With `version`
         *     the change is refused (`conflict`) if the drain has been changed since it was read.
         */
        patch: operations["updateDrain"];
        trace?: never;
    };
    "/v1/drains/{drain_id}/rotate": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Rotate the URL of a log drain
         * @description Creates a new `url`. The previous one answers 404 from the response on.
         */
        post: operations["rotateDrain"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/domains": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** List domains */
        get: operations["listDomains"];
        put?: never;
        /**
         * Add a domain
         * @description Adds the host name of one of your websites, at most five. Prove it within seven days: add the TXT record in
         *     `dns_record`, or serve `token` as the text at `http_url`, then verify it. Either proves that host name only, not
         *     those below it. Public suffixes and names of this service are refused.
         */
        post: operations["createDomain"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/domains/{domain_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Read a domain */
        get: operations["readDomain"];
        put?: never;
        post?: never;
        /** Delete a domain */
        delete: operations["deleteDomain"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/domains/{domain_id}/verify": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Verify a domain
         * @description Looks for the proof now, for at most ten seconds, and answers 200 with the domain, verified or not: `last_error`,
         *     `seen` and `advice` say what was found instead and what to do. At most ten times an hour for a host name. A verified
         *     domain is also checked once a day; it expires when its proof is missed twice, a day apart.
         */
        post: operations["verifyDomain"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/dsns": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** List DSNs */
        get: operations["listDSNs"];
        put?: never;
        /**
         * Create a DSN
         * @description Creates a DSN. Give its `dsn` to an application with the SDK, which then reports where it would have logged a
         *     secret. It allows to send reports, and nothing else. Reports of browsers can be forged by everybody who opens
         *     the page; what they name is unverified until another source has seen it. Reports of servers are believed.
         */
        post: operations["createDSN"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/dsns/{dsn_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Read a DSN
         * @description Shows whether reports arrive: a request is visible in `last_received_at` and the counters within five seconds.
         */
        get: operations["readDSN"];
        put?: never;
        post?: never;
        /**
         * Delete a DSN
         * @description Reports with it are then answered with 401. Its findings stay.
         */
        delete: operations["deleteDSN"];
        options?: never;
        head?: never;
        /**
         * Change a DSN
         * @description Changes the members that are sent. `platform` cannot be changed. With `version` the change is refused
         *     (`conflict`) if the DSN has been changed since it was read.
         */
        patch: operations["updateDSN"];
        trace?: never;
    };
    "/v1/dsns/{dsn_id}/rotate": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Rotate the key of a DSN
         * @description Creates a new `dsn`. Reports with the previous one are answered with 401 from the response on.
         */
        post: operations["rotateDSN"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/scans": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List leak scans
         * @description The newest hundred are kept.
         */
        get: operations["listScans"];
        put?: never;
        /**
         * Start a leak scan
         * @description Looks for leaked keys and exposed files on the website of a verified domain, in at most two minutes: pages, their
         *     scripts and source maps, and sixteen paths at which files are exposed by mistake. It sends GET requests to verified
         *     host names only, at most five a second, without credentials. One scan runs at a time, and five can be started in 24
         *     hours; each verified domain is also scanned once a week. What is found becomes findings with the source `scan`.
         */
        post: operations["createScan"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/scans/{scan_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Read a leak scan
         * @description Its progress while it runs, then its report, which also says what was not looked at.
         */
        get: operations["readScan"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/tripwires": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** List tripwires */
        get: operations["listTripwires"];
        put?: never;
        /**
         * Create a tripwire
         * @description Makes a decoy for a verified domain, at most three each: an API key, an ingest URL, or a file with both. Plant it
         *     where nobody has a reason to use it. It answers as the real thing does, so nobody who tries it can tell. Each use
         *     is a hit of the tripwire's finding, and the first one notifies people.
         *
         *     The secrets are in this answer and nowhere else. A repeat with the same Idempotency-Key shows `token_masked` only:
         *     rotate the tripwire if the answer was lost.
         */
        post: operations["createTripwire"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/tripwires/{tripwire_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Read a tripwire
         * @description Its uses are the occurrences of the finding in `finding_id`.
         */
        get: operations["readTripwire"];
        put?: never;
        post?: never;
        /**
         * Delete a tripwire
         * @description Its secrets trip nothing any more. Its finding stays.
         */
        delete: operations["deleteTripwire"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/tripwires/{tripwire_id}/rotate": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Give a tripwire new secrets
         * @description The former secrets trip nothing any more, and the tripwire is armed again. The answer has the new ones, as that
         *     to its creation.
         */
        post: operations["rotateTripwire"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/tripwires/{tripwire_id}/test": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Expect a test of a tripwire
         * @description Makes the next use from your address within ten minutes a test. It is a hit of the finding in `test_finding_id`,
         *     notifies nobody unless alerts are sent for low severities too, and does not trip the tripwire.
         */
        post: operations["testTripwire"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/issues": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List issues
         * @description Failures of a destination with the same cause are one issue, for 30 days after the last one. It exists after five
         *     failed requests, or one delivery that failed for good.
         */
        get: operations["listIssues"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/issues/{issue_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Read an issue */
        get: operations["readIssue"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        /**
         * Change an issue
         * @description Changes the members that are sent.
         */
        patch: operations["updateIssue"];
        trace?: never;
    };
    "/v1/alerts": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Read the alert settings */
        get: operations["readAlerts"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        /**
         * Change the alert settings
         * @description Changes the settings by JSON merge. `null` removes a channel; a mask leaves the value unchanged.
         */
        patch: operations["updateAlerts"];
        trace?: never;
    };
    "/v1/alerts/test": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Send a test alert to every channel
         * @description Sends a test message to every enabled channel and waits for the results. One test runs at a time. An account may
         *     run 6 tests per minute and send 20 test mails per hour, one for each recipient; beyond that the answer is 429
         *     with `Retry-After`.
         */
        post: operations["testAlerts"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/alerts/history": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List alerts
         * @description The alerts that fire now, and those that were resolved in the last 25 hours, newest first by when each fired for
         *     the first time. An alert that fires again is the same alert with a new `fired_at`. Findings have no alerts here:
         *     see `GET /v1/findings`.
         */
        get: operations["listAlerts"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/findings": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List findings
         * @description Lists findings by their first hit, newest first. All hits of one key are one finding. A filter may have several
         *     values, which are alternatives: repeat it, separate values by commas, or use `name[]`. An unknown filter is
         *     refused with 400. A finding is forgotten 400 days after its last hit.
         */
        get: operations["listFindings"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/findings/update": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Change the status of many findings
         * @description Changes at most 100 findings: those in `ids`, or the newest of a drain and rule that can get the status. While
         *     `more` is true, send the call again for the next ones. Findings of your own API keys are changed by their ids only.
         *     Each change is in the audit log. Sent again, the call changes nothing more.
         */
        post: operations["updateFindings"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/findings/{finding_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Read a finding */
        get: operations["readFinding"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        /**
         * Change the state or the note of a finding
         * @description An open finding can be acknowledged, resolved or ignored, an acknowledged one also opened again, a resolved or
         *     ignored one only opened again; other changes are refused with `invalid_state`. A resolved finding is opened again
         *     by the service if the key is seen more than an hour after it was resolved. With `version` the change is refused
         *     with `conflict` if somebody has changed the finding since.
         */
        patch: operations["updateFinding"];
        trace?: never;
    };
    "/v1/findings/{finding_id}/occurrences": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List the occurrences of a finding
         * @description Lists where and when the key was seen, newest first. Equal sights in one request are one occurrence with a
         *     `count`. Occurrences are kept for 400 days, addresses for 30.
         */
        get: operations["listOccurrences"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/settings/detection": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Read your own detection rules
         * @description The rules that find secrets in log lines and stored events beside the built-in ones.
         */
        get: operations["readDetection"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        /**
         * Change your own detection rules
         * @description `rules` replaces all rules; they apply to lines and events that arrive after the change. A rule describes a key
         *     by its prefix and the characters behind it. Rules that match in ordinary text are refused. Findings of a rule
         *     that is removed stay, with its name. With `version` the change is refused (`conflict`) if the rules have been
         *     changed since they were read.
         */
        patch: operations["updateDetection"];
        trace?: never;
    };
    "/v1/settings/detection/try": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Try detection rules on a text
         * @description Says which secrets a drain would find in a text, with the built-in rules and your own. Nothing is stored or
         *     counted, the answer has masks only, and no `Idempotency-Key` is remembered. It needs a key with `read_write`, as
         *     every POST but the preview of a transformation does, and may be used 10 times a second.
         */
        post: operations["tryDetection"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/fixtures": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List fixtures
         * @description Those that have not expired, without their bodies.
         */
        get: operations["listFixtures"];
        put?: never;
        /**
         * Create a fixture from an event
         * @description Makes a sanitised copy of an event whose body is JSON of at most 256 KiB. Secrets and personal data are redacted:
         *     values of the same type and similar shape stand in their place. Headers are left out. `redactions` says what was
         *     redacted; list in `keep` the pointers of what should stay. What is recognised as a secret is never kept. Nothing else of the event
         *     is stored. Erasing the payload of the event deletes the copy. Without `name` it is called by the type of the event.
         *
         *     With `body`, that body is used instead. A secret anywhere in the request is an error whose `param` is the member,
         *     or the JSON Pointer into `body`.
         */
        post: operations["createFixture"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/fixtures/export": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Export fixtures as a file
         * @description The file for `relay-fixture-run.mjs`, at most 5 MiB. Nothing is sent to anybody. It expires when the first of
         *     its fixtures does.
         */
        get: operations["exportFixtures"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/fixtures/{fixture_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Read a fixture */
        get: operations["readFixture"];
        put?: never;
        post?: never;
        /**
         * Delete a fixture
         * @description Files that were exported stay usable until they expire.
         */
        delete: operations["deleteFixture"];
        options?: never;
        head?: never;
        /**
         * Change a fixture
         * @description Changes the members that are sent. Another `keep` copies the event's body again, which is possible as long as
         *     the payload of the event is retained. With `version` the change is refused (`conflict`) if the fixture has been
         *     changed since it was read.
         */
        patch: operations["updateFixture"];
        trace?: never;
    };
    "/v1/overview": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Read the overview
         * @description What needs a person now, and the traffic of the last hour and day. The answer is at most 10 s old. Requests to
         *     destinations are counted at least once. `total`, `steps` and `day_before` have those of a range. `traffic` is
         *     `null` while the event store does not answer.
         */
        get: operations["readOverview"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/endpoints/{endpoint_id}/traffic": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Read the traffic of an endpoint
         * @description Requests and their latency by destination: of the last hour, of each hour of the last day, and of a range, in
         *     minutes (`15m`, `1h`), ten minutes (`6h`), hours (`24h`), six hours (`7d`) or days (`30d`). Destinations that were
         *     removed are included.
         *     `waiting` has the newest events with an open delivery. The answer is at most 10 s old.
         */
        get: operations["readTraffic"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/usage": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Read the usage of a month, and its projection */
        get: operations["readUsage"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/usage/daily": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Read the usage of the last 30 days
         * @description The answer may be ten seconds old.
         */
        get: operations["readDailyUsage"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/me": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Read the API key of this call */
        get: operations["readMe"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/audit": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List the audit log
         * @description Lists who changed what, newest first, and for each API key, node and hour that the key was used. Entries are
         *     kept for 400 days. An entry names the changed members, never their values. A filter may have several values,
         *     which are alternatives: repeat it, separate values by commas, or use `name[]`. An unknown filter is refused with
         *     400.
         */
        get: operations["listAudit"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/healthz": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Check that the process runs */
        get: operations["checkHealth"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/readyz": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Check that this node can serve requests */
        get: operations["checkReadiness"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/.well-known/jwks.json": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List the public keys of Ed25519 signatures
         * @description A JSON Web Key Set (RFC 7517, RFC 8037) with the keys that sign now, also those in the overlap of a rotation. A receiver reads those of its own endpoint. Needs no API key.
         */
        get: operations["listPublicKeys"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/openapi.json": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Download this document as JSON */
        get: operations["readOpenAPIAsJSON"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/openapi-compat.json": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Download this document in OpenAPI 3.0
         * @description For generators that do not read OpenAPI 3.1. It is made from this document; what 3.0 cannot express is left out.
         */
        get: operations["readOpenAPICompat"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/openapi.yaml": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Download this document as YAML */
        get: operations["readOpenAPIAsYAML"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/docs/deprecations": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Read what is deprecated, until when, and what to use instead */
        get: operations["readDeprecations"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/docs/errors": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Read the explanation of the error types
         * @description The page has an anchor for each type; `doc_url` of an error links to it.
         */
        get: operations["readErrorTypes"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
}
export interface webhooks {
    delivery: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * A delivery, as your destination receives it
         * @description The request that EventRelay sends to your destination: the event's body, the headers that the provider sent, the
         *     headers of the destination, and those below. The signature covers only the id, the timestamp and the body, no
         *     other header. Any 2xx response means delivered.
         */
        post: operations["receiveDelivery"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    alert: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * An alert, as the webhook channel receives it
         * @description The request that the channel `webhook` of `/v1/alerts` receives, signed as
         *     [Standard Webhooks](https://www.standardwebhooks.com) define, with the channel's secret. Any 2xx response within
         *     10 s means received. Otherwise it is sent again for up to 24 hours, with the same id; a test is not.
         */
        post: operations["receiveAlert"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
}
export interface components {
    schemas: {
        /**
         * @description Endpoint receives the events of a provider or an application, and has the destinations to which they are delivered.
         * @example {
         *       "id": "ep_6c8m2v0x4ktq1zj5n7rbw3ye9d",
         *       "object": "endpoint",
         *       "name": "payments",
         *       "description": null,
         *       "provider": "stripe",
         *       "verification": {
         *         "type": "stripe",
         *         "mode": "enforce",
         *         "tolerance_seconds": 300,
         *         "secret_set": true,
         *         "secret_last4": "7c2b"
         *       },
         *       "type_source": "body:$.type",
         *       "dedup": {
         *         "key": "body:$.id",
         *         "window_seconds": 86400
         *       },
         *       "ingest_limit": null,
         *       "source": null,
         *       "reconcile": null,
         *       "source_status": null,
         *       "reconciliation": null,
         *       "destinations": [
         *         {
         *           "id": "dst_0w3ye9d6c8m2v0x4ktq1zj5n7r",
         *           "object": "destination",
         *           "name": "billing",
         *           "url": "https://billing.example.com/stripe",
         *           "enabled": true,
         *           "paused": false,
         *           "timeout_seconds": 15,
         *           "format": "standard",
         *           "max_in_flight": 64,
         *           "headers": {},
         *           "rate_limit": null,
         *           "retry_policy": null,
         *           "transformation": null,
         *           "filter": null,
         *           "signing": {
         *             "scheme": "standard_webhooks",
         *             "algorithm": "hmac-sha256",
         *             "public_key": null,
         *             "secret_last4": "Ti8=",
         *             "schemes": [
         *               {
         *                 "type": "standard_webhooks"
         *               }
         *             ]
         *           },
         *           "state": "active",
         *           "state_reason": null
         *         }
         *       ],
         *       "retry_policy": {
         *         "strategy": "schedule",
         *         "schedule_seconds": [
         *           5,
         *           300,
         *           1800,
         *           7200,
         *           18000,
         *           36000,
         *           50400,
         *           72000,
         *           86400
         *         ],
         *         "max_attempts": 10,
         *         "jitter": 0.1,
         *         "respect_retry_after": true,
         *         "max_retry_after_seconds": 86400,
         *         "retry_on": [
         *           "3xx",
         *           "4xx"
         *         ]
         *       },
         *       "alerts": {
         *         "enabled": true,
         *         "channels": null,
         *         "consecutive_failures": null,
         *         "failure_rate_percent": null,
         *         "muted_until": null
         *       },
         *       "transformation": null,
         *       "response": {
         *         "status": 200,
         *         "content_type": "application/json",
         *         "body": "{\"received\":true}"
         *       },
         *       "enabled": true,
         *       "paused": false,
         *       "keep_method": false,
         *       "allow_headers": [],
         *       "scan_payloads": true,
         *       "validate": "off",
         *       "metadata": {},
         *       "ingest_url": "https://relay.example.com/in/4yaqft3txj9e7yvd7wghy15pve",
         *       "created_at": "2026-11-20T08:00:00.000Z",
         *       "updated_at": "2026-11-20T08:00:00.000Z",
         *       "transformation_version": 0,
         *       "transformation_versions": []
         *     }
         * @example {
         *       "id": "ep_6c8m2v0x4ktq1zj5n7rbw3ye9d",
         *       "object": "endpoint",
         *       "name": "payments",
         *       "description": null,
         *       "provider": "stripe",
         *       "verification": {
         *         "type": "stripe",
         *         "mode": "enforce",
         *         "tolerance_seconds": 300,
         *         "secret_set": true,
         *         "secret_last4": "7c2b"
         *       },
         *       "type_source": "body:$.type",
         *       "dedup": {
         *         "key": "body:$.id",
         *         "window_seconds": 86400
         *       },
         *       "ingest_limit": null,
         *       "source": null,
         *       "reconcile": null,
         *       "source_status": null,
         *       "reconciliation": null,
         *       "destinations": [
         *         {
         *           "id": "dst_0w3ye9d6c8m2v0x4ktq1zj5n7r",
         *           "object": "destination",
         *           "name": "billing",
         *           "url": "https://billing.example.com/stripe",
         *           "enabled": true,
         *           "paused": false,
         *           "timeout_seconds": 15,
         *           "format": "standard",
         *           "max_in_flight": 64,
         *           "headers": {},
         *           "rate_limit": null,
         *           "retry_policy": null,
         *           "transformation": null,
         *           "filter": null,
         *           "signing": {
         *             "scheme": "standard_webhooks",
         *             "algorithm": "hmac-sha256",
         *             "public_key": null,
         *             "secret": "whsec_igOEgWr/im9lkGSyuAXHXLzmt850iLb/BzlZyJUoTi8=",
         *             "secret_last4": "Ti8=",
         *             "schemes": [
         *               {
         *                 "type": "standard_webhooks"
         *               }
         *             ]
         *           },
         *           "state": "active",
         *           "state_reason": null
         *         }
         *       ],
         *       "retry_policy": {
         *         "strategy": "schedule",
         *         "schedule_seconds": [
         *           5,
         *           300,
         *           1800,
         *           7200,
         *           18000,
         *           36000,
         *           50400,
         *           72000,
         *           86400
         *         ],
         *         "max_attempts": 10,
         *         "jitter": 0.1,
         *         "respect_retry_after": true,
         *         "max_retry_after_seconds": 86400,
         *         "retry_on": [
         *           "3xx",
         *           "4xx"
         *         ]
         *       },
         *       "alerts": {
         *         "enabled": true,
         *         "channels": null,
         *         "consecutive_failures": null,
         *         "failure_rate_percent": null,
         *         "muted_until": null
         *       },
         *       "transformation": null,
         *       "response": {
         *         "status": 200,
         *         "content_type": "application/json",
         *         "body": "{\"received\":true}"
         *       },
         *       "enabled": true,
         *       "paused": false,
         *       "keep_method": false,
         *       "allow_headers": [],
         *       "scan_payloads": true,
         *       "validate": "off",
         *       "metadata": {},
         *       "ingest_url": "https://relay.example.com/in/4yaqft3txj9e7yvd7wghy15pve",
         *       "created_at": "2026-11-20T08:00:00.000Z",
         *       "updated_at": "2026-11-20T08:00:00.000Z",
         *       "transformation_version": 0,
         *       "transformation_versions": []
         *     }
         */
        Endpoint: {
            id: components["schemas"]["EndpointId"];
            /** @constant */
            object: "endpoint";
            /** @description Printable characters: no line breaks, tabs, direction marks or other invisible characters. The pattern allows more; what it allows beyond that is refused. Default: the last eight characters of the id. */
            name: string;
            description: string | null;
            /** @description Default `generic`. */
            provider: string;
            verification: components["schemas"]["Verification"] | null;
            /**
             * @description Where the type of a received event comes from: `body:$.type`, `header:X-GitHub-Event` or `const:order.created`. Up to four alternatives, separated by `|`; the first one that yields a type is used. Values of more than 128 bytes, or with spaces or invisible characters, are not types. The default depends on the provider.
             * @example body:$.type
             */
            type_source: string | null;
            /** @description Recognises repeated requests of the provider. A request with the key of an earlier one is stored as `skipped` (`duplicate`) and not delivered. In a cluster, keys are as durable as its Redis: when that starts empty, a repeated request is delivered again. A relay with its engines inside keeps them in a file. The default of a new endpoint depends on the provider, such as `header:X-GitHub-Delivery`; `null` for none. */
            dedup: components["schemas"]["Dedup"] | null;
            ingest_limit: components["schemas"]["IngestLimit"] | null;
            /** @description Where the endpoint reads events from, beside `ingest_url`. `null` ends it. */
            source: components["schemas"]["Source"] | null;
            /** @description How events that the provider could not deliver are fetched from its API: for `stripe` and `github`. `null` ends it. */
            reconcile: components["schemas"]["Reconcile"] | null;
            /** @description How far the source is read; `null` while that is not known, and in lists. */
            source_status: components["schemas"]["SourceStatus"] | null;
            /** @description How the last look at the provider ended; `null` before, without `reconcile`, and in lists. */
            reconciliation: components["schemas"]["Reconciliation"] | null;
            destinations: components["schemas"]["Destination"][];
            /** @description When failed deliveries are tried again. Members of another strategy than the resulting one are ignored. `null` resets the policy to its defaults. */
            retry_policy: components["schemas"]["RetryPolicy"];
            /** @description Settings in which the endpoint differs from the account. `null` removes all of them. */
            alerts: components["schemas"]["EndpointAlerts"];
            /** @description `null`: bodies are delivered as they are stored. */
            transformation: components["schemas"]["Transformation"] | null;
            /** @description Response to the provider after an event was stored. `null` resets it to the default. */
            response: components["schemas"]["Response"];
            /** @description `false`: the ingest URL gets 404 and sends are refused. Stored events stay, and deliveries that wait go on: `paused` holds them, and `enabled: false` of a destination ends them. Default `true`. */
            enabled: boolean;
            /** @description `true`: events are stored and held until the endpoint is unpaused. Default `false`. */
            paused: boolean;
            /** @description Deliver received events with the method they came with (`PUT`, `PATCH` or `DELETE`). Without it every delivery is a `POST`: no provider signs the method. Default `false`. */
            keep_method: boolean;
            /** @description Received headers to forward: names, or their beginnings, which end in a hyphen, such as `X-Shop-`. Where `verification` is that of a known provider, the headers that it sends are forwarded, and these. Otherwise all are but `Authorization`, `Cookie` and `X-Api-Key`, or only these if there are some. Headers of the content are always forwarded; those by which a sender could pose as someone else never are. */
            allow_headers: string[];
            /** @description Look for secrets in the bodies of events, and in headers that carry no credentials. What is found is a finding with the source `event`. */
            scan_payloads: boolean;
            /** @description What happens to an event whose data does not match the newest schema of its type in the catalogue. `warn` accepts it with a warning, `reject` answers a send with 400. Both mark the event with `mismatch`; received events are always accepted. */
            validate: string;
            metadata: {
                [key: string]: string;
            };
            /** @description Tenant that the endpoint belongs to. It is set when the endpoint is created, and never changes. */
            tenant?: components["schemas"]["TenantName"];
            /**
             * Format: uri
             * @description URL to which the provider posts events. Anyone who knows it can send events, so read-only keys and agent keys see its token as `****` and four characters. `rotate-token` creates a new one. Challenges, with which a provider checks the URL (Slack's `url_verification`, `hub.challenge`, Dropbox's `challenge`), are answered before any check and not stored: an answered challenge does not show that the secret of `verification` is right.
             */
            ingest_url: string;
            created_at: components["schemas"]["Time"];
            updated_at: components["schemas"]["Time"];
            /** @description Counts the changes of `transformation`; 0: it never had one. */
            transformation_version: number;
            /** @description When and by whom the newest versions were made, newest first. */
            transformation_versions: components["schemas"]["TransformationVersion"][];
            warnings?: components["schemas"]["Warnings"];
        };
        /** @description Endpoint receives the events of a provider or an application, and has the destinations to which they are delivered. */
        EndpointCreate: {
            /** @description Short form for one destination with this URL, without `destinations`. */
            url?: components["schemas"]["DestinationURL"];
            destinations?: (components["schemas"]["DestinationURL"] | components["schemas"]["DestinationCreate"])[];
            /** @description Printable characters: no line breaks, tabs, direction marks or other invisible characters. The pattern allows more; what it allows beyond that is refused. Default: the last eight characters of the id. */
            name?: string;
            description?: string | null;
            /**
             * @description Default `generic`.
             * @enum {string}
             */
            provider?: "generic" | "stripe" | "github" | "shopify" | "slack" | "twilio" | "standard_webhooks" | "hmac" | "adyen" | "airwallex" | "bitbucket" | "cal_com" | "calendly" | "chargebee" | "clerk" | "coinbase_commerce" | "discord" | "docusign" | "figma" | "gitlab" | "hubspot" | "intercom" | "jira" | "line" | "linear" | "liveblocks" | "mailgun" | "meta" | "mux" | "notion" | "openai" | "paddle" | "pagerduty" | "paypal" | "postmark" | "razorpay" | "replicate" | "resend" | "sendgrid" | "sentry" | "sns" | "square" | "supabase" | "svix" | "telnyx" | "twitch" | "typeform" | "vercel" | "woocommerce" | "workos" | "xero" | "zendesk" | "zoom";
            verification?: components["schemas"]["VerificationCreate"];
            /**
             * @description Where the type of a received event comes from: `body:$.type`, `header:X-GitHub-Event` or `const:order.created`. Up to four alternatives, separated by `|`; the first one that yields a type is used. Values of more than 128 bytes, or with spaces or invisible characters, are not types. The default depends on the provider.
             * @example body:$.type
             */
            type_source?: string | null;
            /** @description Recognises repeated requests of the provider. A request with the key of an earlier one is stored as `skipped` (`duplicate`) and not delivered. In a cluster, keys are as durable as its Redis: when that starts empty, a repeated request is delivered again. A relay with its engines inside keeps them in a file. The default of a new endpoint depends on the provider, such as `header:X-GitHub-Delivery`; `null` for none. */
            dedup?: components["schemas"]["DedupInput"] | null;
            ingest_limit?: components["schemas"]["IngestLimitCreate"];
            /** @description Where the endpoint reads events from, beside `ingest_url`. `null` ends it. */
            source?: components["schemas"]["SourceInput"] | null;
            /** @description How events that the provider could not deliver are fetched from its API: for `stripe` and `github`. `null` ends it. */
            reconcile?: components["schemas"]["ReconcileInput"] | null;
            /** @description When failed deliveries are tried again. Members of another strategy than the resulting one are ignored. `null` resets the policy to its defaults. */
            retry_policy?: components["schemas"]["RetryPolicyInput"] | null;
            /** @description Settings in which the endpoint differs from the account. `null` removes all of them. */
            alerts?: components["schemas"]["EndpointAlertsInput"] | null;
            /** @description `null`: bodies are delivered as they are stored. */
            transformation?: components["schemas"]["TransformationInput"];
            /** @description Response to the provider after an event was stored. `null` resets it to the default. */
            response?: components["schemas"]["ResponseInput"] | null;
            /** @description `false`: the ingest URL gets 404 and sends are refused. Stored events stay, and deliveries that wait go on: `paused` holds them, and `enabled: false` of a destination ends them. Default `true`. */
            enabled?: boolean;
            /** @description `true`: events are stored and held until the endpoint is unpaused. Default `false`. */
            paused?: boolean;
            /** @description Deliver received events with the method they came with (`PUT`, `PATCH` or `DELETE`). Without it every delivery is a `POST`: no provider signs the method. Default `false`. */
            keep_method?: boolean;
            /** @description Received headers to forward: names, or their beginnings, which end in a hyphen, such as `X-Shop-`. Where `verification` is that of a known provider, the headers that it sends are forwarded, and these. Otherwise all are but `Authorization`, `Cookie` and `X-Api-Key`, or only these if there are some. Headers of the content are always forwarded; those by which a sender could pose as someone else never are. */
            allow_headers?: string[] | null;
            /** @description Look for secrets in the bodies of events, and in headers that carry no credentials. What is found is a finding with the source `event`. */
            scan_payloads?: components["schemas"]["ScanPayloads"];
            /** @description What happens to an event whose data does not match the newest schema of its type in the catalogue. `warn` accepts it with a warning, `reject` answers a send with 400. Both mark the event with `mismatch`; received events are always accepted. */
            validate?: components["schemas"]["EventValidation"];
            metadata?: components["schemas"]["MetadataInput"];
            /** @description Tenant that the endpoint belongs to. It is set when the endpoint is created, and never changes. */
            tenant?: components["schemas"]["TenantName"] | null;
        } & (unknown | unknown);
        /** @description Endpoint receives the events of a provider or an application, and has the destinations to which they are delivered. */
        EndpointUpdate: {
            destinations?: (components["schemas"]["DestinationURL"] | components["schemas"]["DestinationEntry"])[];
            /** @description Printable characters: no line breaks, tabs, direction marks or other invisible characters. The pattern allows more; what it allows beyond that is refused. Default: the last eight characters of the id. */
            name?: string;
            description?: string | null;
            /**
             * @description Default `generic`.
             * @enum {string}
             */
            provider?: "generic" | "stripe" | "github" | "shopify" | "slack" | "twilio" | "standard_webhooks" | "hmac" | "adyen" | "airwallex" | "bitbucket" | "cal_com" | "calendly" | "chargebee" | "clerk" | "coinbase_commerce" | "discord" | "docusign" | "figma" | "gitlab" | "hubspot" | "intercom" | "jira" | "line" | "linear" | "liveblocks" | "mailgun" | "meta" | "mux" | "notion" | "openai" | "paddle" | "pagerduty" | "paypal" | "postmark" | "razorpay" | "replicate" | "resend" | "sendgrid" | "sentry" | "sns" | "square" | "supabase" | "svix" | "telnyx" | "twitch" | "typeform" | "vercel" | "woocommerce" | "workos" | "xero" | "zendesk" | "zoom";
            verification?: components["schemas"]["VerificationChange"];
            /**
             * @description Where the type of a received event comes from: `body:$.type`, `header:X-GitHub-Event` or `const:order.created`. Up to four alternatives, separated by `|`; the first one that yields a type is used. Values of more than 128 bytes, or with spaces or invisible characters, are not types. The default depends on the provider.
             * @example body:$.type
             */
            type_source?: string | null;
            /** @description Recognises repeated requests of the provider. A request with the key of an earlier one is stored as `skipped` (`duplicate`) and not delivered. In a cluster, keys are as durable as its Redis: when that starts empty, a repeated request is delivered again. A relay with its engines inside keeps them in a file. The default of a new endpoint depends on the provider, such as `header:X-GitHub-Delivery`; `null` for none. */
            dedup?: components["schemas"]["DedupInput"] | null;
            ingest_limit?: components["schemas"]["IngestLimitChange"];
            /** @description Where the endpoint reads events from, beside `ingest_url`. `null` ends it. */
            source?: components["schemas"]["SourceInput"] | null;
            /** @description How events that the provider could not deliver are fetched from its API: for `stripe` and `github`. `null` ends it. */
            reconcile?: components["schemas"]["ReconcileInput"] | null;
            /** @description When failed deliveries are tried again. Members of another strategy than the resulting one are ignored. `null` resets the policy to its defaults. */
            retry_policy?: components["schemas"]["RetryPolicyInput"] | null;
            /** @description Settings in which the endpoint differs from the account. `null` removes all of them. */
            alerts?: components["schemas"]["EndpointAlertsInput"] | null;
            /** @description `null`: bodies are delivered as they are stored. */
            transformation?: components["schemas"]["TransformationInput"];
            /** @description Response to the provider after an event was stored. `null` resets it to the default. */
            response?: components["schemas"]["ResponseInput"] | null;
            /** @description `false`: the ingest URL gets 404 and sends are refused. Stored events stay, and deliveries that wait go on: `paused` holds them, and `enabled: false` of a destination ends them. Default `true`. */
            enabled?: boolean;
            /** @description `true`: events are stored and held until the endpoint is unpaused. Default `false`. */
            paused?: boolean;
            /** @description Deliver received events with the method they came with (`PUT`, `PATCH` or `DELETE`). Without it every delivery is a `POST`: no provider signs the method. Default `false`. */
            keep_method?: boolean;
            /** @description Received headers to forward: names, or their beginnings, which end in a hyphen, such as `X-Shop-`. Where `verification` is that of a known provider, the headers that it sends are forwarded, and these. Otherwise all are but `Authorization`, `Cookie` and `X-Api-Key`, or only these if there are some. Headers of the content are always forwarded; those by which a sender could pose as someone else never are. */
            allow_headers?: string[] | null;
            /** @description Look for secrets in the bodies of events, and in headers that carry no credentials. What is found is a finding with the source `event`. */
            scan_payloads?: components["schemas"]["ScanPayloads"];
            /** @description What happens to an event whose data does not match the newest schema of its type in the catalogue. `warn` accepts it with a warning, `reject` answers a send with 400. Both mark the event with `mismatch`; received events are always accepted. */
            validate?: components["schemas"]["EventValidation"];
            metadata?: components["schemas"]["MetadataInput"];
            /** @description Tenant that the endpoint belongs to. It is set when the endpoint is created, and never changes. */
            tenant?: components["schemas"]["TenantName"] | null;
        };
        /** @description Limits of what the endpoint accepts per second, on all nodes together. Above a limit, its ingest URL and sends get 429 with `Retry-After`. A member that is left out stays as it is. `{"events_per_second": null}` removes that limit and keeps the other; `null` instead of the object removes both. */
        IngestLimitChange: components["schemas"]["IngestLimitInput"] | null;
        IngestLimitCreate: null | {
            events_per_second: number;
            bytes_per_second?: number | null;
        } | {
            events_per_second?: null;
            bytes_per_second: number;
        };
        /**
         * @description Changes deliveries. `null` or no operations: bodies are delivered as they are stored. Of a destination, `null`
         *     means as the endpoint. The array alone is a short form. It replaces the operations as a whole, and each change
         *     makes a new version. Deliveries that are already queued, retries and replays use the newest one.
         */
        TransformationInput: {
            ops?: unknown;
        } & (null | components["schemas"]["Transformation"] | components["schemas"]["TransformationOps"]);
        /** @description The operations that a request may have. A later version may have more, which answers then have too. */
        TransformationOpInput: {
            /** @enum {unknown} */
            op?: "rename" | "pick" | "drop" | "wrap" | "add" | "set" | "header" | "path" | "method" | "cancel";
        };
        /**
         * @description Operations on the stored body, one after the other, with at most 64 KiB of JSON together. For sent events the
         *     stored body is the envelope `{id, type, timestamp, data}`. Filters see it before, the signature covers the
         *     result. Order of members, text of numbers and of strings stay as they are; white space is left out. A body that
         *     only `header`, `path`, `method` and `cancel` look at is delivered as it is stored, JSON or not.
         *
         *     If the body is not JSON, or an operation fails, the delivery ends `failed`, `transform_failed`, without a
         *     request. So it does for what parsers read differently: duplicate members, invalid UTF-8, half of a surrogate
         *     pair, nesting deeper than 64 (of sent events: of their data). The result may have twice the limit for bodies.
         */
        TransformationOps: components["schemas"]["TransformationOp"][];
        /**
         * @description - `rename` moves what is at `from` to `to` and makes missing objects on the way.
         *     - `pick` keeps what `paths` match, with the objects and arrays on the way; in arrays positions hold, and what is
         *       not picked before a picked element becomes `null`.
         *     - `drop` removes what `paths` match.
         *     - `wrap` puts the document, or what is `at` a path, into a new object as its member `key`.
         *     - `add` puts `value`, or what `from` names, at `path`.
         *     - `set` puts the value of `expr` at `path`, in place of what is there. Without `path` it is the body.
         *     - `header` adds the header `name` with the value of `expr`: a string, number or bool, printable ASCII of at most
         *       1,024 bytes; `null` adds none. It replaces one of the destination. Names as in `headers` of a destination, and
         *       none of `Authorization`, `Proxy-Authorization`, `Cookie`.
         *     - `path` appends the value of `expr` to the path of the URL: names between slashes, each escaped, at most 1,024
         *       bytes, none empty, `.` or `..`.
         *     - `method` sends the request with the value of `expr`: POST, PUT, PATCH or DELETE.
         *     - `cancel` ends the delivery `skipped`, `cancelled_by_rule`, if `when` is true. Nothing is sent.
         *
         *     `path` and `method` have no effect on batches and on destinations that are no webhooks; one that has its own
         *     transformation refuses them.
         */
        TransformationOp: {
            op: string;
            /**
             * @description For `rename` a path; for `add` one of `event.id`, `event.type` (null if there is none), `event.received_at`,
             *     `endpoint.id`, `attempt.number` (that of `relay-attempt`).
             */
            from?: string;
            to?: components["schemas"]["TransformationPath"];
            paths?: components["schemas"]["TransformationPath"][];
            key?: string;
            at?: components["schemas"]["TransformationPath"];
            path?: components["schemas"]["TransformationPath"];
            /** @description Any JSON of at most 4 KiB. */
            value?: unknown;
            /**
             * @description An expression as in `filter.when`, with any value, over the event as it is stored, whatever the operations
             *     before have changed. If it reads what the event does not have, nothing is done. The value of `set` may have
             *     4 KiB more than the body.
             */
            expr?: string;
            name?: string;
            /** @description A condition as `filter.when`. */
            when?: string;
            /** @description If there is something at the target of `rename` or `add`. Default `error`. */
            on_conflict?: string;
            /**
             * @description `true`: it is an error if there is nothing at a source, or where `expr` reads. Default: the operation is
             *     passed over.
             */
            required?: boolean;
        };
        /**
         * @description With a leading `/` a JSON Pointer, otherwise dotted: `data.items.0.sku`. A step `*` matches each element of an
         *     array; in an object it is the member `*`. At the end of the path of `add` or of `to`, `-` is the place
         *     after the last element. In `rename`, both paths have as many `*`.
         */
        TransformationPath: string;
        TransformationVersions: {
            data: components["schemas"]["KeptTransformationVersion"][];
        };
        /** @default true */
        ScanPayloads: boolean;
        /**
         * @default off
         * @enum {string}
         */
        EventValidation: "off" | "warn" | "reject";
        /** @description Your own key-value pairs. Merged key by key; `null` removes a key. */
        MetadataInput: {
            [key: string]: string | null;
        } | null;
        /** @description JSON Schema (2020-12) of at most 64 KiB: an object, a boolean, or null for none. */
        EventSchema: unknown;
        /** @description Any JSON. */
        AnyJSON: unknown;
        OpenAPIDocument: {
            /** @example 3.1.0 */
            openapi: string;
            info?: {
                [key: string]: unknown;
            };
            servers?: {
                [key: string]: unknown;
            }[];
            tags?: {
                [key: string]: unknown;
            }[];
            webhooks: {
                [key: string]: unknown;
            };
        };
        VerificationCreate: (((components["schemas"]["VerificationChange"] | null | unknown | unknown) | null) & components["schemas"]["VerificationChange"]) | null | unknown | unknown;
        VerificationChange: components["schemas"]["VerificationInput"] | null;
        /**
         * @description Destination is where the events of an endpoint are delivered.
         * @example {
         *       "id": "dst_0w3ye9d6c8m2v0x4ktq1zj5n7r",
         *       "object": "destination",
         *       "name": "billing",
         *       "url": "https://billing.example.com/stripe",
         *       "enabled": true,
         *       "paused": false,
         *       "timeout_seconds": 15,
         *       "format": "standard",
         *       "max_in_flight": 64,
         *       "headers": {},
         *       "rate_limit": null,
         *       "retry_policy": null,
         *       "transformation": null,
         *       "filter": null,
         *       "signing": {
         *         "scheme": "standard_webhooks",
         *         "algorithm": "hmac-sha256",
         *         "public_key": null,
         *         "secret_last4": "Ti8=",
         *         "schemes": [
         *           {
         *             "type": "standard_webhooks"
         *           }
         *         ]
         *       },
         *       "state": "active",
         *       "state_reason": null
         *     }
         * @example {
         *       "id": "dst_0w3ye9d6c8m2v0x4ktq1zj5n7r",
         *       "object": "destination",
         *       "name": "billing",
         *       "url": "https://billing.example.com/stripe",
         *       "enabled": true,
         *       "paused": false,
         *       "timeout_seconds": 15,
         *       "format": "standard",
         *       "max_in_flight": 64,
         *       "headers": {},
         *       "rate_limit": null,
         *       "retry_policy": null,
         *       "transformation": null,
         *       "filter": null,
         *       "signing": {
         *         "scheme": "standard_webhooks",
         *         "algorithm": "hmac-sha256",
         *         "public_key": null,
         *         "secret": "whsec_igOEgWr/im9lkGSyuAXHXLzmt850iLb/BzlZyJUoTi8=",
         *         "secret_last4": "Ti8=",
         *         "schemes": [
         *           {
         *             "type": "standard_webhooks"
         *           }
         *         ]
         *       },
         *       "state": "active",
         *       "state_reason": null
         *     }
         */
        Destination: {
            id: components["schemas"]["DestinationId"];
            /** @constant */
            object: "destination";
            /** @description Printable characters: no line breaks, tabs, direction marks or other invisible characters. The pattern allows more; what it allows beyond that is refused. */
            name: string | null;
            url: string;
            /** @description Default `true`. */
            enabled: boolean;
            /** @description Default `false`. */
            paused: boolean;
            /** @description Time limit of one attempt, in seconds. Default `15`. */
            timeout_seconds: number;
            /** @description What a delivery has as its body. `standard`: the stored body, which for an event that was sent through the API is its envelope. `raw`: of such an event `data` alone; another one as `standard`. `cloudevents`: CloudEvents 1.0 in the structured mode, `application/cloudevents+json`; a body that is not JSON is `data_base64`. `cloudevents_binary`: the body as with `raw`, and the attributes in headers `ce-*`; not for `http_batch`, `s3` and `sqs`, where an event has no headers of its own. Default `standard`. */
            format: string;
            /** @description Maximum number of concurrent requests. Default `64`. */
            max_in_flight: number;
            /** @description Headers that are added to each delivery. Credentials are masked. */
            headers: {
                [key: string]: string;
            };
            rate_limit: components["schemas"]["RateLimit"] | null;
            /** @description In place of the endpoint's. Merged member by member; what is left out in a new one is as in the endpoint. `null`: as the endpoint. */
            retry_policy: components["schemas"]["RetryPolicy"] | null;
            filter: components["schemas"]["Filter"] | null;
            /** @description In place of the endpoint's. `null`: as the endpoint. No operations: bodies are delivered as they are stored. */
            transformation: components["schemas"]["Transformation"] | null;
            /** @description How requests to the URL are authenticated, beside headers and signature. Merged member by member; null ends it. */
            auth?: components["schemas"]["Auth"];
            /** @description Events gather and go to the URL as one JSON array in one request. Merged member by member; null sends a request for each event. */
            http_batch?: components["schemas"]["HTTPBatch"];
            /** @description One delivery at a time for each key, in the order in which its events were accepted. Merged member by member; null ends it. */
            ordering?: components["schemas"]["Ordering"];
            /** @description A topic in your Kafka, in place of a url: each event is a record, acknowledged by all in-sync replicas. Merged member by member. */
            kafka?: components["schemas"]["Kafka"];
            /** @description A bucket of an S3-compatible store, in place of a url: events gather in objects with one JSON object a line. Merged member by member. */
            s3?: components["schemas"]["S3"];
            /** @description Consumers fetch the events themselves and acknowledge them, in place of a url: for applications that cannot be reached. Merged member by member. */
            pull?: components["schemas"]["Pull"];
            /** @description A queue of Amazon SQS or of a service with its API, in place of a url: each event is a message. Merged member by member. */
            sqs?: components["schemas"]["SQS"];
            signing: components["schemas"]["SigningType2"];
            /** @description What happens to new deliveries. `active`: they are sent; `held`: they wait for the circuit breaker's next probe; `paused`: they wait until the destination is unpaused; `disabled`: none are created. */
            state: string;
            state_reason: string | null;
            warnings?: components["schemas"]["Warnings"];
        };
        /**
         * Format: https-url
         * @description An https URL without user information and fragment. The host is a public name, the port 443 or 1024 to 65535.
         *     Read-only keys and agent keys see query values, and path segments of 16 or more characters that are not plain
         *     words, as `****` and the last four characters, or as `****` alone below 12 characters. If such a mask is sent
         *     back, the URL stays unchanged.
         * @example https://example.com/hook
         */
        DestinationURL: string;
        DestinationCreate: ({
            rate_limit?: components["schemas"]["RateLimitCreate"];
        } & components["schemas"]["DestinationInput"]) | unknown | unknown | unknown | unknown | unknown;
        /** @description An entry of the full set. With the `id` of a current destination it is merged into that one and needs no `url`. */
        DestinationEntry: ({
            id?: components["schemas"]["DestinationId"];
        } & components["schemas"]["DestinationInput"]) | unknown | unknown | unknown | unknown | unknown | unknown;
        /** @description Headers that are added to each delivery. Merged header by header: `null` removes one, the mask of its value leaves it unchanged; another mask of a credential is refused. A `User-Agent` replaces the service's own. Headers of the HTTP transport, `webhook-*` and `relay-*` cannot be set. */
        DestinationHeadersInput: {
            [key: string]: string | null;
        } | null;
        RateLimitCreate: WithRequired<components["schemas"]["RateLimitInput"], "per_second"> | null;
        /** @description Which events are delivered here: those that match all of these. `null`: all events. */
        FilterInput: {
            /**
             * @example [
             *       "order.*"
             *     ]
             */
            types?: string[] | null;
            /**
             * @description Paths in the JSON body with the values that they must have. Replaced as a whole. A path is members and indexes of arrays with dots between them (`data.items.0.id`), optionally after `$.`. All other characters are literal; a path with `/`, `*` or `[` that looks like another syntax has a warning.
             * @example {
             *       "data.currency": "EUR"
             *     }
             */
            body?: {
                [key: string]: string | number | boolean | null;
            } | null;
            /**
             * @description A pattern that the event must match: `body`, `headers` (lower-case names), `query`, `type` and `event` with the values that they must have, or operators. At most 8 KiB and 200 values.
             * @example {
             *       "body": {
             *         "data": {
             *           "amount": {
             *             "$gte": 100
             *           }
             *         }
             *       },
             *       "headers": {
             *         "x-test": {
             *           "$exist": false
             *         }
             *       }
             *     }
             */
            match?: Record<string, never> | null;
            /**
             * @description A condition in CEL (the Common Expression Language) over `body`, `headers`, `query`, `type` and `event`. It does not hold for an event without a member that it reads; if it fails otherwise, the delivery ends `failed`, `transform_failed`.
             * @example body.data.amount >= 100 && !("x-test" in headers)
             */
            when?: string | null;
        } | null;
        SigningInput: {
            /** @constant */
            scheme?: "standard_webhooks";
            /**
             * @description Default `hmac-sha256`. Another than the current one replaces the secret at once.
             * @enum {string}
             */
            algorithm?: "hmac-sha256" | "ed25519";
            /** @description `whsec_` and the base64 of 24 to 64 bytes, or `whsk_` and the base64 of an Ed25519 key, for a secret from another relay. It replaces the current secret at once; `rotate_secret` keeps both for a while. */
            secret?: string;
            /** @description By what deliveries are signed: by all of these at once. Replaced as a whole; `null` and `[]` stand for `standard_webhooks` alone. Not for `s3` and `sqs`, which get no signatures. */
            schemes?: components["schemas"]["SigningSchemeInput"][] | null;
        } | null;
        Filter: {
            types?: string[];
            body?: {
                [key: string]: string | number | boolean | null;
            };
            match?: {
                [key: string]: unknown;
            };
            when?: string;
        };
        Purged: {
            id: components["schemas"]["DestinationId"];
            /** @constant */
            object: "destination";
            purged_before: components["schemas"]["Time"];
        };
        /**
         * @example {
         *       "id": "evt_01m7w6h6kk00r00w2s1cbs4f8h",
         *       "object": "event",
         *       "endpoint_id": "ep_6c8m2v0x4ktq1zj5n7rbw3ye9d",
         *       "type": "order.created",
         *       "status": "pending",
         *       "source": "api",
         *       "destinations": {
         *         "total": 1,
         *         "delivered": 0,
         *         "failed": 0,
         *         "pending": 1
         *       },
         *       "processing": "none",
         *       "size_bytes": 158,
         *       "received_at": "2026-11-27T03:10:02.978Z",
         *       "last_attempt_at": null,
         *       "next_attempt_at": null,
         *       "reason": "queued",
         *       "why": "waiting for its first attempt",
         *       "why_details": {
         *         "code": "queued",
         *         "until": null,
         *         "cause": null
         *       },
         *       "payload_erased_at": null,
         *       "verification": "sent",
         *       "attempts": 0,
         *       "deliveries": [
         *         {
         *           "destination_id": "dst_0w3ye9d6c8m2v0x4ktq1zj5n7r",
         *           "status": "pending",
         *           "reason": "queued",
         *           "last_response_status": null
         *         }
         *       ]
         *     }
         */
        SentEvent: {
            warnings?: components["schemas"]["Warnings"];
        } & components["schemas"]["EventRow"];
        /**
         * @description Text of at most 128 bytes without spaces and characters that cannot be seen.
         * @example order.created
         * @example orders/create
         */
        SentType: string;
        EventSend: {
            type: components["schemas"]["SentType"];
            /** @description Content of the event. Nesting depth at most 64. */
            data: {
                [key: string]: unknown;
            };
            deliver_at?: components["schemas"]["DeliverAt"];
            expires_at?: components["schemas"]["ExpiresAt"];
            id?: never;
        };
        /**
         * Format: date-time
         * @description When it is delivered, at most 30 days ahead and within the retention. Default, and if it has passed, at once.
         */
        DeliverAt: string | null;
        /**
         * Format: date-time
         * @description From then on no delivery of it is tried any more; it ends as skipped (`expired`). In the future, after `deliver_at`. Replays ignore it.
         */
        ExpiresAt: string | null;
        EventBatch: {
            /** @description The events. An invalid one is refused on its own; the others are stored. */
            events: components["schemas"]["BatchEvent"][];
        };
        BatchEvent: {
            type: components["schemas"]["SentType"];
            data: {
                [key: string]: unknown;
            };
            deliver_at?: components["schemas"]["DeliverAt"];
            expires_at?: components["schemas"]["ExpiresAt"];
            idempotency_key?: string | null;
        };
        EventTest: {
            /**
             * @description Provider whose event is imitated. Default: the endpoint's provider.
             * @enum {string|null}
             */
            provider?: "generic" | "stripe" | "github" | "shopify" | "slack" | "twilio" | "standard_webhooks" | "hmac" | "adyen" | "airwallex" | "bitbucket" | "cal_com" | "calendly" | "chargebee" | "clerk" | "coinbase_commerce" | "discord" | "docusign" | "figma" | "gitlab" | "hubspot" | "intercom" | "jira" | "line" | "linear" | "liveblocks" | "mailgun" | "meta" | "mux" | "notion" | "openai" | "paddle" | "pagerduty" | "paypal" | "postmark" | "razorpay" | "replicate" | "resend" | "sendgrid" | "sentry" | "sns" | "square" | "supabase" | "svix" | "telnyx" | "twitch" | "typeform" | "vercel" | "woocommerce" | "workos" | "xero" | "zendesk" | "zoom" | null;
            /** @description Type of the event, as `SentType`. Default: the provider's most common type. */
            type?: string | null;
            /** @description The one destination that gets it. Default: all enabled destinations. It is sent to a destination that is held, too; if it is delivered, the hold ends. */
            destination_id?: string | null;
        };
        StreamBody: string;
        StreamItem: {
            /** @description For `Last-Event-ID`; the `end` has none. */
            id?: string;
            event: string;
            /** @description JSON in one line. */
            data: string;
        } & (unknown & unknown & unknown & unknown);
        /** @description The stream has begun. */
        StreamReady: {
            endpoint_id: components["schemas"]["EndpointId"];
        };
        /** @description Nothing more comes. */
        StreamEnd: {
            reason: string;
        };
        EventData: {
            [key: string]: unknown;
        };
        HeaderPairs: string[][];
        /**
         * @description Derived from the deliveries, first match: `retrying` (one has failed and will be tried again), `pending` (one
         *     was not tried yet), `failed` (one has failed for good), `delivered` (one was delivered), `skipped` (there was
         *     nothing to deliver). `rejected`: the signature was not accepted, so nothing is delivered.
         * @enum {string}
         */
        EventStatus: "pending" | "retrying" | "delivered" | "failed" | "skipped" | "rejected";
        EventReason: string;
        EventList: {
            data: components["schemas"]["EventRow"][];
            next_cursor?: components["schemas"]["NextCursor"];
            /**
             * @description Present if a search ended before its page was full. Continue with the cursor.
             * @constant
             */
            partial?: true;
            /** @description Only for a search: events that it compared for this page. */
            scanned?: number;
            warnings?: components["schemas"]["Warnings"];
        };
        ReceiptDetails: string | {
            [key: string]: unknown;
        } | null;
        ReceiptReport: {
            /** @enum {string} */
            state: "processing" | "processed" | "failed";
            /** @description Your own reference, such as a job id. Do not send secrets or personal data: a secret is refused, and `warnings` name personal data. */
            reference?: string | null;
            /** @description A text of at most 2 KiB, or an object of at most 4 KiB and a nesting depth of 5. Do not send secrets or personal data: a secret is refused, and `warnings` name personal data. */
            details?: string | Record<string, never> | null;
        };
        ReplayRunFilter: {
            endpoint_id?: components["schemas"]["OneOrMore"];
            destination_id?: components["schemas"]["OneOrMore"];
            status?: components["schemas"]["OneOrMore"];
            type?: components["schemas"]["OneOrMore"];
            /** @description Only for the replay of a single event. */
            event_id?: string;
            /** @description `true` if the replay asked for it. */
            only_undelivered?: boolean;
        };
        ReplayResult: {
            /** @description Events selected. */
            events: number;
            /** @description Deliveries queued. */
            queued: number;
            run_id: string;
            /** @constant */
            truncated: false;
            warnings?: components["schemas"]["Warnings"];
        };
        SelectionReplayResult: {
            /** @description Events selected. */
            events: number;
            /** @description Deliveries queued. */
            queued: number;
            /** @description `null` for a dry run. */
            run_id: string | null;
            /** @constant */
            truncated: false;
            warnings?: components["schemas"]["Warnings"];
        };
        /** @description The filters are at the top, all inside `filter`, or inside `filter` with the times at the top. */
        ReplayInput: components["schemas"]["ReplayAtTop"] | components["schemas"]["ReplayTimesBeside"] | components["schemas"]["ReplayInFilter"];
        ReplayAtTop: {
            /** @description Also: `endpoint`. */
            endpoint_id?: components["schemas"]["EndpointIds"];
            destination_id?: components["schemas"]["DestinationIds"];
            status?: components["schemas"]["EventStatuses"];
            type?: components["schemas"]["EventTypes"];
            /** @description The endpoints of these tenants. */
            tenant?: components["schemas"]["OneOrMore"];
            /** @description Inclusive. Also: `from`, `start`. */
            since: components["schemas"]["PastTime"];
            /** @description Exclusive. Default: now. Also: `to`, `end`. */
            until?: components["schemas"]["PastTime"] | null;
            rate_per_second?: components["schemas"]["ReplayRate"];
            dry_run?: components["schemas"]["DryRun"];
            only_undelivered?: components["schemas"]["OnlyUndelivered"];
        } | unknown | unknown | unknown | unknown | unknown;
        ReplayTimesBeside: {
            filter: {
                endpoint_id?: components["schemas"]["EndpointIds"];
                destination_id?: components["schemas"]["DestinationIds"];
                status?: components["schemas"]["EventStatuses"];
                type?: components["schemas"]["EventTypes"];
                /** @description The endpoints of these tenants. */
                tenant?: components["schemas"]["OneOrMore"];
            };
            since: components["schemas"]["PastTime"];
            until?: components["schemas"]["PastTime"] | null;
            rate_per_second?: components["schemas"]["ReplayRate"];
            dry_run?: components["schemas"]["DryRun"];
            only_undelivered?: components["schemas"]["OnlyUndelivered"];
        };
        ReplayInFilter: {
            filter: {
                endpoint_id?: components["schemas"]["EndpointIds"];
                destination_id?: components["schemas"]["DestinationIds"];
                status?: components["schemas"]["EventStatuses"];
                type?: components["schemas"]["EventTypes"];
                /** @description The endpoints of these tenants. */
                tenant?: components["schemas"]["OneOrMore"];
                since: components["schemas"]["PastTime"];
                until?: components["schemas"]["PastTime"] | null;
            } | unknown | unknown | unknown | unknown | unknown;
            rate_per_second?: components["schemas"]["ReplayRate"];
            dry_run?: components["schemas"]["DryRun"];
            only_undelivered?: components["schemas"]["OnlyUndelivered"];
        };
        /** @description Deliveries per second. The call does not wait for them. Default `50`. */
        ReplayRate: number | null;
        /** @description `true` sends to no destination that has the event, or that it is still on its way to. Default `false`. */
        OnlyUndelivered: boolean;
        /** @description `true` counts the selection and queues nothing. Default `false`. */
        DryRun: boolean;
        /** @description One, several separated by commas, or an array. */
        EndpointIds: string | components["schemas"]["EndpointId"][];
        /** @description One, several separated by commas, or an array. */
        DestinationIds: string | components["schemas"]["DestinationId"][];
        /** @description One, several separated by commas, or an array. */
        EventStatuses: string | components["schemas"]["EventStatus"][];
        /** @description One, several separated by commas, or an array. A star at the end matches a prefix (`order.*`). */
        EventTypes: string | string[];
        /**
         * @description `interrupted`: the run stopped half-way; what it had queued is delivered. `cancelled`: somebody cancelled it;
         *     what was not sent is skipped.
         */
        ReplayRunState: string;
        RecoveryState: string;
        RecoveryItemState: string;
        RecoveryInput: {
            endpoint_id: components["schemas"]["EndpointId"];
            /** @description An enabled destination. Default: all destinations of the endpoint. */
            destination_id?: components["schemas"]["DestinationId"] | null;
            since: components["schemas"]["PastTime"];
            /** @description Deliveries per second. */
            rate_per_second: number;
        };
        RecoveryAction: {
            /** @enum {string} */
            action: "canary" | "continue" | "cancel";
            /**
             * @description The state in which you have seen the job. If it is in another one, the answer is 400 `conflict`, unless the action is in effect already.
             * @enum {string|null}
             */
            state?: "preparing" | "ready" | "canary_running" | "awaiting_approval" | "running" | "completed" | "stopped" | "cancelled" | "expired" | "failed" | null;
        };
        DomainVerification: {
            /**
             * @description Default is the method that has verified the domain, else `dns`.
             * @enum {string}
             */
            method?: "dns" | "http";
        };
        AlertValue: string | number | null;
        /** @description The channels; `null` for one that is not configured. */
        AlertChannels: {
            email: components["schemas"]["AlertEmail"] | null;
            slack: components["schemas"]["AlertSlack"] | null;
            webhook: components["schemas"]["AlertWebhook"] | null;
        };
        AlertEmail: {
            enabled: boolean;
            to: string[];
        };
        AlertSlack: {
            enabled: boolean;
            /** @description Masked: `https://hooks.slack.com/****a1b2`. */
            webhook_url: string;
        };
        AlertWebhook: {
            enabled: boolean;
            /** @description Masked. */
            url: string;
            secret_set: boolean;
            /** @description Secret that signs the messages. Only in the response that created it. */
            secret?: string;
        };
        /** @description AlertSettings says what alerts are about, and where they go. */
        AlertSettingsInput: {
            /** @description Short for `channels.email.to`. */
            email?: components["schemas"]["AlertAddresses"] | null;
            /** @description Short for `channels.slack.webhook_url`. */
            slack_webhook_url?: components["schemas"]["AlertURL"] | null;
            /** @description Short for `channels.webhook.url`. */
            webhook_url?: components["schemas"]["AlertURL"] | null;
            /** @description Every kind; null where none is configured. */
            channels?: components["schemas"]["AlertChannelsInput"];
            /** @description Merged rule by rule; `null` resets one rule, or all of them, to the defaults. */
            rules?: components["schemas"]["AlertRulesInput"] | null;
            /** @description Shortest time between two messages about the same subject, in seconds. */
            cooldown_seconds?: number | null;
        };
        /** @description `null` removes one channel, or all of them. */
        AlertChannelsInput: {
            email?: {
                /** @description Default `true`. */
                enabled?: boolean;
                /** @description Required if the channel does not exist yet. */
                to?: components["schemas"]["AlertAddresses"];
            } | null;
            slack?: {
                /** @description Default `true`. */
                enabled?: boolean;
                /** @description Required if the channel does not exist yet. */
                webhook_url?: components["schemas"]["AlertURL"];
            } | null;
            webhook?: {
                /** @description Default `true`. */
                enabled?: boolean;
                /** @description Required if the channel does not exist yet. */
                url?: components["schemas"]["AlertURL"];
                /** @description `whsec_` and the base64 of 24 to 64 bytes. Default: a generated secret. */
                secret?: string;
                /** @description `true` generates a new secret. Default `false`. */
                rotate_secret?: boolean;
            } | null;
        } | null;
        AlertAddresses: components["schemas"]["AlertAddress"] | components["schemas"]["AlertAddress"][];
        /**
         * Format: email
         * @example ops@example.com
         */
        AlertAddress: string;
        /**
         * Format: https-url
         * @description An https URL. Its mask leaves it unchanged.
         */
        AlertURL: string;
        /** @example fnd_6c8m2v0x4ktq1zj5n7rbw3ye9d */
        FindingId: string;
        FindingSource: string;
        FindingSeverity: string;
        FindingLocation: {
            source: components["schemas"]["FindingSource"];
            /** @description Names the place: the application that wrote the line, the domain, or the name of the sender. */
            label: string;
            file?: string;
            /** @description That of the newest hit. */
            line?: number;
            /** @description The lines of this file and function at which an SDK saw it, ascending; of more than 20 the newest. */
            lines?: number[];
            function?: string;
            /** @description Without query and fragment. */
            url?: string;
            /** @description JSON pointer (RFC 6901) into an event. */
            pointer?: string;
            drain_id?: string;
            dsn_id?: string;
            endpoint_id?: string;
            /** @description That of the newest hit at this location. */
            event_id?: string;
            scan_id?: string;
            tripwire_id?: string;
            count: number;
            last_seen: components["schemas"]["Time"];
        };
        FindingPlace: {
            source: components["schemas"]["FindingSource"];
            /** @description Names the place: the application that wrote the line, the domain, or the name of the sender. */
            label: string;
            file?: string;
            line?: number;
            function?: string;
            /** @description Without query and fragment. */
            url?: string;
            /** @description JSON pointer (RFC 6901) into an event. */
            pointer?: string;
            drain_id?: string;
            dsn_id?: string;
            endpoint_id?: string;
            /** @description That of the newest hit at this location. */
            event_id?: string;
            scan_id?: string;
            tripwire_id?: string;
        };
        FindingsUpdate: {
            /** @description Ids of findings; or `drain_id` and `rule`. */
            ids?: string[] | null;
            /** @description Selects the findings that a drain saw first. */
            drain_id?: string | null;
            /** @description Required together with `drain_id`. */
            rule?: string | null;
            /** @enum {string} */
            status: "open" | "acknowledged" | "resolved" | "ignored";
            /**
             * @description Required for `resolved`.
             * @enum {string|null}
             */
            resolution?: "revoked" | "removed" | "false_positive" | null;
            /**
             * @description Required for `ignored`.
             * @enum {string|null}
             */
            ignore_reason?: "false_positive" | "used_in_tests" | "accepted_risk" | null;
            /** @description Only for `ignored`: when they are opened again. See the update of one finding. */
            ignore_until?: components["schemas"]["InputTime"] | null;
            /** @description Keys in it are masked. */
            note?: string | null;
            /** @description With one id only: the version that you have seen. If the finding has another one and is not as it should become already, it is among `failed` with the type `conflict`. */
            version?: number | null;
        } | {
            ids: string[];
            drain_id?: null;
            rule?: null;
            version?: null;
        } | {
            ids?: null;
            drain_id: string;
            rule: string;
            version?: null;
        } | {
            ids: string[];
            drain_id?: null;
            rule?: null;
        };
        /** Format: date-time */
        FixtureExpiry: string;
        RequiredField: {
            /** @description JSON Pointer (RFC 6901), such as `/data/id`. */
            pointer: string;
            /** @enum {string|null} */
            type?: "string" | "number" | "boolean" | "object" | "array" | "null" | null;
            /** @description The exact value, any JSON of at most 4 KiB. The runner compares numbers by their value with all their digits: 1, 1.0 and 1e0 are equal, and so are 0 and -0. */
            equals?: unknown;
        };
        Redaction: {
            /** @description Into the sanitised body. For JSON within a string, that of the string. */
            pointer: string;
            /** @description `named`: the name of a member around it announces something sensitive. */
            reason: string;
            /** @enum {string} */
            type: "string" | "number";
        };
        FixtureSuite: {
            /** @constant */
            format: "relay.fixture-suite";
            /** @constant */
            version: 1;
            suite_id: string;
            exported_at: components["schemas"]["Time"];
            expires_at: components["schemas"]["Time"];
            fixtures: {
                id: components["schemas"]["FixtureId"];
                name: string;
                type: string | null;
                method: string;
                /** @description The sanitised JSON. */
                body: unknown;
                expires_at: components["schemas"]["Time"];
                expect: {
                    status: number;
                    required?: components["schemas"]["RequiredField"][];
                };
            }[];
        };
        KeySet: {
            keys: {
                /** @constant */
                kty: "OKP";
                /** @constant */
                crv: "Ed25519";
                /** @description The public key in base64url. */
                x: string;
                /** @constant */
                use: "sig";
                /** @constant */
                alg: "EdDSA";
                /** @description The thumbprint of the key (RFC 7638). */
                kid: string;
            }[];
        };
        Health: {
            /** @constant */
            status: "ok";
        };
        Readiness: {
            /** @enum {string} */
            status: "ready" | "not ready";
            checks: {
                name: string;
                ok: boolean;
                /** @description Whether the node is not ready while this check fails. */
                required?: boolean;
            }[];
        };
        /**
         * Format: date-time
         * @example 2026-08-21T22:24:36.123Z
         */
        Time: string;
        /**
         * @description RFC 3339 with any offset. Without a zone it is UTC; a date alone is midnight UTC.
         * @example 2026-08-21T22:24:36Z
         * @example 2026-08-21T22:24:36
         * @example 2026-08-21
         */
        InputTime: string;
        /**
         * @description RFC 3339 with any offset, or a time to the minute. Without a zone it is UTC; a date alone is midnight UTC. Or how long ago: `15m`, `24h`, `7d`; `now`, `today` and `yesterday`, which begin at midnight UTC.
         * @example 2026-08-21T22:24:36Z
         * @example 2026-08-21 22:24
         * @example 2026-08-21
         * @example 24h
         * @example yesterday
         */
        PastTime: string;
        /**
         * @description RFC 3339 with any offset, or a time to the minute. Without a zone it is UTC; a date alone is midnight UTC. Or how long ago: `15m`, `24h`, `7d`; `now`, `today` and `yesterday`, which begin at midnight UTC. An empty value counts as absent. A time that is told by how long ago it was moves on from page to page of a list.
         * @example 2026-08-21T22:24:36Z
         * @example 24h
         */
        FilterTime: string;
        /** @example customer-42 */
        TenantName: string;
        /** @example iss_6c8m2v0x4ktq1zj5n7rbw3ye9d */
        IssueId: string;
        /** @example invoice.paid */
        EventTypeName: string;
        /** @example ep_6c8m2v0x4ktq1zj5n7rbw3ye9d */
        EndpointId: string;
        /** @example dst_0w3ye9d6c8m2v0x4ktq1zj5n7r */
        DestinationId: string;
        /** @example evt_01m7w6h6kk00r00w2s1cbs4f8h */
        EventId: string;
        DeliveryId: string;
        /** @example att_01m7w6h6kk00r00w2s1cbs4f8h */
        AttemptId: string;
        /** @example run_01m7w6h6kk00r00w2s1cbs4f8h */
        RunId: string;
        /** @example rec_01m7w6h6kk00r00w2s1cbs4f8h */
        RecoveryId: string;
        /** @example dsn_4ktq1zj5n7rbw3ye9d6c8m2v0x */
        DSNId: string;
        /** @example drn_4ktq1zj5n7rbw3ye9d6c8m2v0x */
        DrainId: string;
        /** @example dom_zj5n7rbw3ye9d6c8m2v0x4ktq1 */
        DomainId: string;
        /** @example scn_w3ye9d6c8m2v0x4ktq1zj5n7rb */
        ScanId: string;
        /** @example trw_ye9d6c8m2v0x4ktq1zj5n7rbw3 */
        TripwireId: string;
        /** @example fix_5n7rbw3ye9d6c8m2v0x4ktq1zj */
        FixtureId: string;
        /** @example pls_9d6c8m2v0x4ktq1zj5n7rbw3ye */
        LinkId: string;
        /** @example key_9d6c8m2v0x4ktq1zj5n7rbw3ye */
        KeyId: string;
        FilterValues: string[];
        FilterTypes: string[];
        /** @description Send it as `cursor` to get the next page. Absent on the last page. */
        NextCursor: string;
        /** @description Present only if there are warnings. */
        Warnings: components["schemas"]["Warning"][];
        Error: {
            error: components["schemas"]["ErrorDetail"];
        };
        ErrorDetail: {
            type: components["schemas"]["ErrorType"];
            /** @description What is wrong and what to do next, for people. It may change at any time. */
            message: string;
            /** @description The invalid parameter: a dotted path with indexes in the body, or the name of a query parameter or header. */
            param?: string;
            /** @description A more specific code than `type`, if there is one. */
            code?: string;
            /**
             * Format: uri
             * @description Link to the explanation of `type`.
             */
            doc_url: string;
            /** @description The same as `X-Request-Id`. */
            request_id: string;
            /** @description The run of a replay that stopped half-way. */
            run_id?: components["schemas"]["RunId"];
            /** @description Number of deliveries that this replay had queued. */
            queued?: number;
        };
        /**
         * @description 400 `invalid_request invalid_state idempotency_mismatch selection_too_large payload_too_large conflict`,
         *     401 `authentication_required invalid_api_key`, 403 `insufficient_scope`, 404 `not_found`,
         *     429 `rate_limited allowance_exceeded`, 500 `internal`, 503 `unavailable`, 504 `timeout`.
         */
        ErrorType: string;
        TimeOrNull: components["schemas"]["Time"] | null;
        BodyEncoding: string;
        /**
         * @description Only present if the value of a header is not UTF-8: for each pair, in its order, the bytes of the value in base64,
         *     or `null` if the value is UTF-8.
         */
        HeadersBase64: (string | null)[];
        /** @description One value, several separated by commas, or an array of values. */
        OneOrMore: string | string[];
        /** @description Acknowledged is the answer to acknowledgements, one for each, in their order. */
        Acknowledged: {
            data: components["schemas"]["Acknowledgement"][];
        };
        /** @description Acknowledgement is what became of an attempt. */
        Acknowledgement: {
            /** @example att_01m7w6h6kk00r00w2s1cbs4f8h */
            attempt_id: string;
            /** @description `acknowledged`: the event is delivered, now or before. `expired`: the lease had ended. `unknown`: the destination has no such lease, or it ended when its node stopped. Expired and unknown ones are delivered again, unless another attempt was acknowledged. */
            status: string;
        };
        /** @description Alert is something that needs attention, or did. */
        Alert: {
            id: string;
            /** @constant */
            object: "alert";
            /** @description The type of its messages, such as `alert.destination.held`. */
            type: string;
            rule: string;
            /** @description `null` for alerts of the account. */
            endpoint_id: string | null;
            destination_id: string | null;
            /** @description Only of the rule `recovery`. */
            recovery_id: string | null;
            state: string;
            /** @description What the rule found when it fired last: a number, or a word such as `gone_410`. */
            value: components["schemas"]["AlertValue"];
            /** @description What `value` was compared with; `null` for rules without a threshold. */
            threshold: components["schemas"]["AlertValue"];
            /** @description When it fired last. */
            fired_at: components["schemas"]["Time"];
            /** @description `null` while it fires. */
            resolved_at: components["schemas"]["Time"] | null;
        };
        AlertAgeRule: {
            enabled: boolean;
            seconds: number;
        };
        AlertAgeRuleInput: {
            enabled?: boolean;
            seconds?: number;
        };
        AlertCounted: {
            total: number;
            data: components["schemas"]["Alert"][];
        };
        AlertFindingRule: {
            enabled: boolean;
            min_severity: string;
        };
        AlertFindingRuleInput: {
            enabled?: boolean;
            /** @enum {string} */
            min_severity?: "low" | "medium" | "high" | "critical";
        };
        AlertList: {
            data: components["schemas"]["Alert"][];
            next_cursor?: components["schemas"]["NextCursor"];
        };
        AlertProcessingRule: {
            enabled: boolean;
            /** @description Fires when an event has no receipt this long after its delivery, in minutes. */
            minutes: number;
        };
        AlertProcessingRuleInput: {
            enabled?: boolean;
            /** @description Fires when an event has no receipt this long after its delivery, in minutes. */
            minutes?: number;
        };
        AlertRateRule: {
            enabled: boolean;
            percent: number;
            window_seconds: number;
            /** @description With fewer attempts in the window the rule does not fire. */
            min_attempts: number;
        };
        AlertRateRuleInput: {
            enabled?: boolean;
            percent?: number;
            window_seconds?: number;
            /** @description With fewer attempts in the window the rule does not fire. */
            min_attempts?: number;
        };
        AlertRule: {
            enabled: boolean;
        };
        AlertRuleInput: {
            enabled?: boolean;
        };
        AlertRules: {
            /** @description Fires when a delivery fails for good. It fires again only after a delivery to the destination has succeeded. */
            delivery_failed: components["schemas"]["AlertRule"];
            /** @description Fires after that many failed attempts in a row at a destination. */
            consecutive_failures: components["schemas"]["AlertThresholdRule"];
            failure_rate: components["schemas"]["AlertRateRule"];
            backlog_age: components["schemas"]["AlertAgeRule"];
            /** @description Fires when the service holds or disables a destination. */
            destination_state: components["schemas"]["AlertRule"];
            /** @description Fires after that many invalid signatures. */
            verification_failed: components["schemas"]["AlertThresholdRule"];
            usage: components["schemas"]["AlertUsageRule"];
            finding: components["schemas"]["AlertFindingRule"];
            /** @description Fires when a recovery job has ended, unless it was cancelled. */
            recovery: components["schemas"]["AlertRule"];
            processing_missing: components["schemas"]["AlertProcessingRule"];
            /** @description Fires when the source of an endpoint cannot be read, or its provider cannot be asked for events, for longer than that. */
            source_failing: components["schemas"]["AlertAgeRule"];
        };
        AlertRulesInput: {
            /** @description Fires when a delivery fails for good. It fires again only after a delivery to the destination has succeeded. */
            delivery_failed?: components["schemas"]["AlertRuleInput"] | null;
            /** @description Fires after that many failed attempts in a row at a destination. */
            consecutive_failures?: components["schemas"]["AlertThresholdRuleInput"] | null;
            failure_rate?: components["schemas"]["AlertRateRuleInput"] | null;
            backlog_age?: components["schemas"]["AlertAgeRuleInput"] | null;
            /** @description Fires when the service holds or disables a destination. */
            destination_state?: components["schemas"]["AlertRuleInput"] | null;
            /** @description Fires after that many invalid signatures. */
            verification_failed?: components["schemas"]["AlertThresholdRuleInput"] | null;
            usage?: components["schemas"]["AlertUsageRuleInput"] | null;
            finding?: components["schemas"]["AlertFindingRuleInput"] | null;
            /** @description Fires when a recovery job has ended, unless it was cancelled. */
            recovery?: components["schemas"]["AlertRuleInput"] | null;
            processing_missing?: components["schemas"]["AlertProcessingRuleInput"] | null;
            /** @description Fires when the source of an endpoint cannot be read, or its provider cannot be asked for events, for longer than that. */
            source_failing?: components["schemas"]["AlertAgeRuleInput"] | null;
        };
        /** @description AlertSettings says what alerts are about, and where they go. */
        AlertSettings: {
            /** @description Every kind; null where none is configured. */
            channels: components["schemas"]["AlertChannels"];
            /** @description Merged rule by rule; `null` resets one rule, or all of them, to the defaults. */
            rules: components["schemas"]["AlertRules"];
            /** @description Shortest time between two messages about the same subject, in seconds. */
            cooldown_seconds: number;
            updated_at: components["schemas"]["Time"] | null;
            warnings?: components["schemas"]["Warnings"];
        };
        /** @description AlertTestOutcome is the outcome of the test of one channel. */
        AlertTestOutcome: {
            channel: string;
            /** @description Masked. */
            target: string;
            ok: boolean;
            /** @description `skipped`: the channel is disabled. */
            status: string;
            http_status: number | null;
            /** @description A value of an attempt's `error_code`, or one for mail such as `smtp_not_configured`. */
            error: string | null;
            message: string | null;
            duration_ms: number;
        };
        /** @description AlertTestResult is the response to a test of all channels. */
        AlertTestResult: {
            sent: number;
            failed: number;
            results: components["schemas"]["AlertTestOutcome"][];
            warnings?: components["schemas"]["Warnings"];
        };
        AlertThresholdRule: {
            enabled: boolean;
            threshold: number;
        };
        AlertThresholdRuleInput: {
            enabled?: boolean;
            threshold?: number;
        };
        AlertUsageRule: {
            enabled: boolean;
            /** @description Percentages of the allowance at which it fires, ascending. */
            percent: number[];
        };
        AlertUsageRuleInput: {
            enabled?: boolean;
            /** @description Percentages of the allowance at which it fires, ascending. */
            percent?: number[];
        };
        /** @description Attempt is one request to a destination. */
        Attempt: {
            id: components["schemas"]["AttemptId"];
            event_id: components["schemas"]["EventId"];
            endpoint_id: components["schemas"]["EndpointId"];
            destination_id: components["schemas"]["DestinationId"];
            delivery_id: components["schemas"]["DeliveryId"];
            /** @description Number of the attempt for this event and destination, counted through all replays and recovery jobs. The header `relay-attempt` of the request begins with 1 again in each of them. */
            attempt_number: number;
            trigger: string;
            run_id: string | null;
            recovery_id: string | null;
            status: string;
            response_status: number | null;
            /** @description What was wrong with the answer, or why there is none. No attempt has `transform_failed` or `payload_expired`: then no request is made, and they are the `reason` of the delivery. */
            error_code: string | null;
            /** @example connection refused */
            error_message: string | null;
            started_at: components["schemas"]["Time"];
            duration_ms: number;
            ttfb_ms: number;
            request: components["schemas"]["AttemptRequest"];
            response: components["schemas"]["AttemptResponse"] | null;
            remote_ip: string | null;
            next_attempt_at: components["schemas"]["Time"] | null;
            retry_after_seconds: number | null;
            /** @description The version of the endpoint's transformation that made the body; 0: the body was sent as it is stored. */
            transformation_version: number;
            /** @description The OpenTelemetry trace of the attempt, which the request named in `traceparent`; `null`: it was not traced. */
            trace_id: string | null;
        };
        AttemptList: {
            data: components["schemas"]["Attempt"][];
            next_cursor?: components["schemas"]["NextCursor"];
        };
        /** @description AttemptRequest is the request of an attempt. */
        AttemptRequest: {
            url: string;
            method: string;
            /** @description Credentials are masked. */
            headers: {
                [key: string]: string;
            };
        };
        /** @description AttemptResponse is the answer of the destination. */
        AttemptResponse: {
            headers: {
                [key: string]: string;
            };
            body: string;
            body_encoding: components["schemas"]["BodyEncoding"];
            truncated: boolean;
        };
        /** @description AuditActor is who made a change. */
        AuditActor: {
            /** @description `portal` is a person of a tenant in the portal; `operator` is someone who ran a `relay` command on a node; `system` is the service itself. */
            type: string;
            /** @description Id of the key, the user or the portal link. */
            id: string | null;
            /** @description Name of the key, the user, or the part of the service, at that time. */
            name: string | null;
        };
        /** @description AuditEntry is one change of the configuration. */
        AuditEntry: {
            id: string;
            /** @constant */
            object: "audit_entry";
            at: components["schemas"]["Time"];
            actor: components["schemas"]["AuditActor"];
            /** @description What was done, such as `endpoint.created`, `endpoint.updated`, `key.revoked`, `key.used`, `tool.called`. */
            action: string;
            entity: components["schemas"]["Entity"];
            /** @description Paths of the members that an update changed, such as `destinations.dst_….enabled`. If there are too many, only the first ones, followed by `…`. */
            changes: string[];
            /** @description Id of a related entity. For an agent's request (`act_…`), the entity that it wants to change; for the change that was then made, the `act_…`. */
            related_id: string | null;
            /** @description `X-Request-Id` of the request that made the change. */
            request_id: string | null;
            remote_ip: string | null;
            /** @description Only for `key.used`: requests with the key at one node since `at`, over about an hour. Written once a minute. */
            use: components["schemas"]["KeyUse"] | null;
        };
        AuditEntryList: {
            data: components["schemas"]["AuditEntry"][];
            next_cursor?: components["schemas"]["NextCursor"];
        };
        Auth: {
            /** @description basic: user name and password (RFC 7617). oauth2_client_credentials: an access token from token_url (RFC 6749, 4.4), kept until it expires and renewed once when the destination answers 401. mtls: a client certificate. Required. */
            type: string;
            /**
             * @description For basic. Without a colon.
             * @example relay
             */
            username?: string;
            /**
             * @description For basic. Masked in responses; its mask means unchanged.
             * @example ****4f2a
             */
            password?: string;
            /**
             * @description For oauth2_client_credentials: the https URL of the token endpoint.
             * @example https://login.example.com/oauth2/token
             */
            token_url?: string;
            /**
             * @description For oauth2_client_credentials.
             * @example relay
             */
            client_id?: string;
            /**
             * @description For oauth2_client_credentials. Masked in responses; its mask means unchanged.
             * @example ****4f2a
             */
            client_secret?: string;
            /** @description For oauth2_client_credentials: whether id and secret are sent in the header Authorization or in the body. Default header. */
            client_auth?: string;
            /**
             * @description For oauth2_client_credentials: the scopes, with spaces between them.
             * @example events.write
             */
            scope?: string;
            /**
             * @description For oauth2_client_credentials: the parameter audience, if the token endpoint needs one.
             * @example https://api.example.com
             */
            audience?: string;
            /**
             * @description For mtls: the client certificate with its chain, in PEM form.
             * @example -----BEGIN CERTIFICATE-----…
             */
            certificate?: string;
            /**
             * @description For mtls: the private key of the certificate, in PEM form. Masked in responses; its mask means unchanged.
             * @example ****
             */
            key?: string;
        };
        AuthInput: {
            /**
             * @description basic: user name and password (RFC 7617). oauth2_client_credentials: an access token from token_url (RFC 6749, 4.4), kept until it expires and renewed once when the destination answers 401. mtls: a client certificate. Required.
             * @enum {string}
             */
            type?: "basic" | "oauth2_client_credentials" | "mtls";
            /**
             * @description For basic. Without a colon.
             * @example relay
             */
            username?: string | null;
            /**
             * @description For basic. Masked in responses; its mask means unchanged.
             * @example ****4f2a
             */
            password?: string | null;
            /**
             * @description For oauth2_client_credentials: the https URL of the token endpoint.
             * @example https://login.example.com/oauth2/token
             */
            token_url?: string | null;
            /**
             * @description For oauth2_client_credentials.
             * @example relay
             */
            client_id?: string | null;
            /**
             * @description For oauth2_client_credentials. Masked in responses; its mask means unchanged.
             * @example ****4f2a
             */
            client_secret?: string | null;
            /**
             * @description For oauth2_client_credentials: whether id and secret are sent in the header Authorization or in the body. Default header.
             * @enum {string|null}
             */
            client_auth?: "header" | "body" | null;
            /**
             * @description For oauth2_client_credentials: the scopes, with spaces between them.
             * @example events.write
             */
            scope?: string | null;
            /**
             * @description For oauth2_client_credentials: the parameter audience, if the token endpoint needs one.
             * @example https://api.example.com
             */
            audience?: string | null;
            /**
             * @description For mtls: the client certificate with its chain, in PEM form.
             * @example -----BEGIN CERTIFICATE-----…
             */
            certificate?: string | null;
            /**
             * @description For mtls: the private key of the certificate, in PEM form. Masked in responses; its mask means unchanged.
             * @example ****
             */
            key?: string | null;
        };
        /** @description BatchItem is the result of one event of a batch: its id and status, or its error. */
        BatchItem: {
            index: number;
            id?: components["schemas"]["EventId"];
            status?: components["schemas"]["EventStatus"];
            error?: components["schemas"]["ErrorDetail"];
        };
        /** @description Canary counts the first deliveries, or the next ones if all of those were skipped. `delivered` and `failed` are theirs. */
        Canary: {
            total: number;
            delivered: number;
            failed: number;
        };
        /** @description CatalogueSettings say who may see the catalogue. */
        CatalogueSettings: {
            /** @constant */
            object: "catalogue_settings";
            /** @description `true`: `/catalogue` and `/catalogue/openapi.json` show it to everybody, without internal types. Default `false`. */
            public: boolean;
            /** @description Heading of the page and title of the document. Default: Webhooks. */
            title: string;
            warnings?: components["schemas"]["Warnings"];
        };
        /** @description CatalogueSettings say who may see the catalogue. */
        CatalogueSettingsInput: {
            /** @description `true`: `/catalogue` and `/catalogue/openapi.json` show it to everybody, without internal types. Default `false`. */
            public?: boolean;
            /** @description Heading of the page and title of the document. Default: Webhooks. */
            title?: string;
        };
        /** @description Change is one path that changed. */
        Change: {
            change: string;
            /** @description JSON Pointer to where it is now or was removed. */
            pointer: string;
            /** @description JSON Pointer before the value moved, also when it replaced another value (`replaced`). */
            from: string | null;
            /** @description The first 200 bytes of the value as JSON. */
            before: string | null;
            /** @description The first 200 bytes of the value as JSON. */
            after: string | null;
        };
        /** @description Consumer is who pulls a destination. */
        Consumer: {
            /** @example worker-1 */
            consumer: string;
            last_pull_at: components["schemas"]["Time"];
            /** @description A pull waits for events. */
            pulling: boolean;
            /** @description Number of events that it has and has not acknowledged. */
            leases: number;
        };
        /** @description Consumers are those of the last hour, up to 100 of each node that has events of the destination. */
        Consumers: {
            data: components["schemas"]["Consumer"][];
        };
        /** @description CountedEvents is the response to GET /v1/events/counts. */
        CountedEvents: {
            /** @constant */
            object: "event_counts";
            /** @description Events that were counted: the newest. */
            counted: number;
            /** @description Older events match, too. */
            more: boolean;
            statuses: components["schemas"]["StatusCounts"];
            /** @description Length of a step of time. */
            step_seconds: number;
            /** @description Steps with any event, oldest first. */
            steps: components["schemas"]["CountedStep"][];
        };
        /** @description CountedStep has the events that were received in one step of time. */
        CountedStep: {
            at: components["schemas"]["Time"];
            delivered: number;
            failed: number;
            retrying: number;
            pending: number;
            skipped: number;
            rejected: number;
        };
        /** @description CriticalFinding is an open finding of `critical` or `high` severity. */
        CriticalFinding: {
            id: string;
            rule: string;
            name: string;
            masked: string | null;
            severity: string;
            opened_at: components["schemas"]["Time"];
        };
        CriticalFindingCounted: {
            total: number;
            data: components["schemas"]["CriticalFinding"][];
        };
        /** @description DSN is what an application with the SDK sends its reports to. */
        DSN: {
            id: components["schemas"]["DSNId"];
            /** @constant */
            object: "dsn";
            /** @description Printable. Default is the end of its id. */
            name: string;
            /** @description Required for a new DSN, and then fixed. Use `browser` for whatever users can download. */
            platform: string;
            /** @description The DSN to configure in the application. For server DSNs, read-only keys see its key masked. */
            dsn: string;
            /** @description Origins of the pages that may send reports, such as `https://app.example.com` or `https://*.example.com`. Only for `browser`; without any (`[]` or `null`), all pages may. It keeps out mistakes only: programs can send any origin. */
            allowed_origins: string[];
            /** @description Reports of a UTC day that are accepted; `null` for no limit. */
            daily_quota: number | null;
            /** @description Name and version in the newest request of the last 24 hours that names them. */
            sdk: string | null;
            /** @description Arrival of the newest request of the last 24 hours, a refused one included. */
            last_received_at: components["schemas"]["Time"] | null;
            /** @description `null` while the store does not answer. */
            requests_24h: number | null;
            /** @description Secrets, each as often as it occurred. */
            hits_24h: number | null;
            /** @description Requests that were refused. */
            rejected_24h: number | null;
            reports_24h: number | null;
            /** @description Why the newest refused request of the last 24 hours was refused. `masking_failed`: the application withheld lines that it could not mask. */
            last_error: string | null;
            /** @description Increases with each change. Send the version that you read: if it is outdated, the change is refused (`conflict`). */
            version: number;
            created_by: string;
            created_at: components["schemas"]["Time"];
            updated_at: components["schemas"]["Time"];
            warnings?: components["schemas"]["Warnings"];
        };
        /** @description DSN is what an application with the SDK sends its reports to. */
        DSNInput: {
            /** @description Printable. Default is the end of its id. */
            name?: string;
            /**
             * @description Required for a new DSN, and then fixed. Use `browser` for whatever users can download.
             * @enum {string}
             */
            platform?: "server" | "browser";
            /** @description Origins of the pages that may send reports, such as `https://app.example.com` or `https://*.example.com`. Only for `browser`; without any (`[]` or `null`), all pages may. It keeps out mistakes only: programs can send any origin. */
            allowed_origins?: string[] | null;
            /** @description Reports of a UTC day that are accepted; `null` for no limit. */
            daily_quota?: number | null;
        };
        DSNList: {
            data: components["schemas"]["DSN"][];
            next_cursor?: components["schemas"]["NextCursor"];
        };
        /** @description DSN is what an application with the SDK sends its reports to. */
        DSNUpdate: {
            /** @description Printable. Default is the end of its id. */
            name?: string;
            /**
             * @description Required for a new DSN, and then fixed. Use `browser` for whatever users can download.
             * @enum {string}
             */
            platform?: "server" | "browser";
            /** @description Origins of the pages that may send reports, such as `https://app.example.com` or `https://*.example.com`. Only for `browser`; without any (`[]` or `null`), all pages may. It keeps out mistakes only: programs can send any origin. */
            allowed_origins?: string[] | null;
            /** @description Reports of a UTC day that are accepted; `null` for no limit. */
            daily_quota?: number | null;
            /** @description Increases with each change. Send the version that you read: if it is outdated, the change is refused (`conflict`). */
            version?: number;
        };
        Dedup: {
            /**
             * @description What identifies the event: a path in the JSON body, or a header.
             * @example body:$.id
             */
            key: string;
            /** @description How long a key is remembered, in seconds. Default: a day. */
            window_seconds: number;
        };
        DedupInput: {
            /**
             * @description What identifies the event: a path in the JSON body, or a header.
             * @example body:$.id
             */
            key: string;
            /** @description How long a key is remembered, in seconds. Default: a day. */
            window_seconds?: number;
        };
        /** @description Deleted is the answer to DELETE. */
        Deleted: {
            id: string;
            object: string;
            /** @constant */
            deleted: true;
        };
        /** @description Delivery is an event on its way to one destination. */
        Delivery: {
            id: components["schemas"]["DeliveryId"];
            destination_id: components["schemas"]["DestinationId"];
            status: string;
            reason: components["schemas"]["EventReason"] | null;
            /** @description Explains the status in one sentence, for people. */
            why: string;
            /** @description The same as values. */
            why_details: components["schemas"]["Why"];
            attempts: number;
            next_attempt_at: components["schemas"]["Time"] | null;
            run_id: string | null;
            /** @description Why the transformation failed, if `reason` is `transform_failed`. Computed again on each read: `null` if the payload was erased, the endpoint was deleted, or the operations of that version are no longer kept. */
            transform_failure: components["schemas"]["TransformFailure"] | null;
            /** @description Why the condition of the destination's filter had no value, if `reason` is `transform_failed`. Computed again on each read: `null` if it has one now. */
            filter_failure: string | null;
        };
        /** @description DeliveryState is the state of an event at one destination, in a list. */
        DeliveryState: {
            destination_id: components["schemas"]["DestinationId"];
            status: string;
            reason: components["schemas"]["EventReason"] | null;
            /** @description HTTP status of the last attempt; `null` without a response. */
            last_response_status: number | null;
        };
        /** @description Destination is where the events of an endpoint are delivered. */
        DestinationInput: {
            /** @description Printable characters: no line breaks, tabs, direction marks or other invisible characters. The pattern allows more; what it allows beyond that is refused. */
            name?: string | null;
            url?: components["schemas"]["DestinationURL"];
            /** @description Default `true`. */
            enabled?: boolean;
            /** @description Default `false`. */
            paused?: boolean;
            /** @description Time limit of one attempt, in seconds. Default `15`. */
            timeout_seconds?: number;
            /**
             * @description What a delivery has as its body. `standard`: the stored body, which for an event that was sent through the API is its envelope. `raw`: of such an event `data` alone; another one as `standard`. `cloudevents`: CloudEvents 1.0 in the structured mode, `application/cloudevents+json`; a body that is not JSON is `data_base64`. `cloudevents_binary`: the body as with `raw`, and the attributes in headers `ce-*`; not for `http_batch`, `s3` and `sqs`, where an event has no headers of its own. Default `standard`.
             * @enum {string}
             */
            format?: "standard" | "raw" | "cloudevents" | "cloudevents_binary";
            /** @description Maximum number of concurrent requests. Default `64`. */
            max_in_flight?: number;
            /** @description Headers that are added to each delivery. Credentials are masked. */
            headers?: components["schemas"]["DestinationHeadersInput"];
            rate_limit?: components["schemas"]["RateLimitInput"] | null;
            /** @description In place of the endpoint's. Merged member by member; what is left out in a new one is as in the endpoint. `null`: as the endpoint. */
            retry_policy?: components["schemas"]["RetryPolicyInput"] | null;
            filter?: components["schemas"]["FilterInput"];
            /** @description In place of the endpoint's. `null`: as the endpoint. No operations: bodies are delivered as they are stored. */
            transformation?: components["schemas"]["TransformationInput"];
            /** @description How requests to the URL are authenticated, beside headers and signature. Merged member by member; null ends it. */
            auth?: components["schemas"]["AuthInput"] | null;
            /** @description Events gather and go to the URL as one JSON array in one request. Merged member by member; null sends a request for each event. */
            http_batch?: components["schemas"]["HTTPBatchInput"] | null;
            /** @description One delivery at a time for each key, in the order in which its events were accepted. Merged member by member; null ends it. */
            ordering?: components["schemas"]["OrderingInput"] | null;
            /** @description A topic in your Kafka, in place of a url: each event is a record, acknowledged by all in-sync replicas. Merged member by member. */
            kafka?: components["schemas"]["KafkaInput"] | null;
            /** @description A bucket of an S3-compatible store, in place of a url: events gather in objects with one JSON object a line. Merged member by member. */
            s3?: components["schemas"]["S3Input"] | null;
            /** @description Consumers fetch the events themselves and acknowledge them, in place of a url: for applications that cannot be reached. Merged member by member. */
            pull?: components["schemas"]["PullInput"] | null;
            /** @description A queue of Amazon SQS or of a service with its API, in place of a url: each event is a message. Merged member by member. */
            sqs?: components["schemas"]["SQSInput"] | null;
            signing?: components["schemas"]["SigningInput"];
        };
        /** @description DestinationRequests are the requests of the last hour to one destination. */
        DestinationRequests: {
            destination_id: string;
            requests: number;
            delivered: number;
            failed: number;
        };
        /** @description DestinationTraffic is the traffic of one destination, also of one that was removed. */
        DestinationTraffic: {
            destination_id: string;
            last_hour: components["schemas"]["MeasuredRequests"];
            /** @description The last 24 hours with any request, oldest first. */
            hours: components["schemas"]["MeasuredStep"][];
            /** @description The requests of the range. */
            total: components["schemas"]["MeasuredRequests"];
            /** @description The steps of the range with any request, oldest first. */
            steps: components["schemas"]["MeasuredStep"][];
            /** @description The same steps one day before; empty for a range of more than 24h. */
            day_before: components["schemas"]["MeasuredStep"][];
        };
        /** @description DetectionRule is one of the account's own rules. */
        DetectionRule: {
            /** @description Unique among your rules. */
            id: string;
            /** @description Printable. Shown with its findings. */
            name: string;
            /** @description Prefixes of the keys. All rules together have at most 150. A prefix begins with at most three other prefixes. */
            prefixes: string[];
            /** @description Characters after the prefix. Default `alnum`: ASCII letters and digits. `word` adds `_`, `urlsafe` adds `-` and `_`, `base64` adds `+`, `/` and `=`. */
            charset: string;
            /** @description Minimum number of characters after the prefix. Default 16. */
            min: number;
            /** @description Maximum number of characters after the prefix. Default 128, the highest for `base64`, `token68` and `value`. */
            max: number;
            /** @description What must not precede the prefix. Default `word`: a letter, a digit or `_`. `charset`: a character of the charset. */
            left: string;
            /** @description What must not follow the key. Default `word`: a letter, a digit or `_`. `charset`: a character of the charset. With `any` a longer key is found by its first `max` characters. */
            right: string;
            /** @description Minimum Shannon entropy of the characters after the prefix, in bits per character. Default 0. */
            entropy: number;
            /** @description Severity of its findings, at most `high`. Default `medium`. */
            severity: string;
            /** @description URL (https) of a page with instructions for a leaked key. */
            docs_url: string | null;
        };
        /** @description DetectionRule is one of the account's own rules. */
        DetectionRuleInput: {
            /** @description Unique among your rules. */
            id: string;
            /** @description Printable. Shown with its findings. */
            name: string;
            /** @description Prefixes of the keys. All rules together have at most 150. A prefix begins with at most three other prefixes. */
            prefixes: string[];
            /**
             * @description Characters after the prefix. Default `alnum`: ASCII letters and digits. `word` adds `_`, `urlsafe` adds `-` and `_`, `base64` adds `+`, `/` and `=`.
             * @enum {string}
             */
            charset?: "alnum" | "base32" | "base64" | "client" | "dash" | "digit" | "dotted" | "hex" | "letter" | "lower" | "lownum" | "padded" | "token68" | "upnum" | "upper" | "urlsafe" | "uuid" | "value" | "word";
            /** @description Minimum number of characters after the prefix. Default 16. */
            min?: number;
            /** @description Maximum number of characters after the prefix. Default 128, the highest for `base64`, `token68` and `value`. */
            max?: number;
            /**
             * @description What must not precede the prefix. Default `word`: a letter, a digit or `_`. `charset`: a character of the charset.
             * @enum {string}
             */
            left?: "word" | "charset";
            /**
             * @description What must not follow the key. Default `word`: a letter, a digit or `_`. `charset`: a character of the charset. With `any` a longer key is found by its first `max` characters.
             * @enum {string}
             */
            right?: "word" | "charset" | "any";
            /** @description Minimum Shannon entropy of the characters after the prefix, in bits per character. Default 0. */
            entropy?: number;
            /**
             * @description Severity of its findings, at most `high`. Default `medium`.
             * @enum {string}
             */
            severity?: "critical" | "high" | "medium" | "low";
            /** @description URL (https) of a page with instructions for a leaked key. */
            docs_url?: string | null;
        };
        /** @description DetectionSettings are the account's own rules for secrets. */
        DetectionSettings: {
            /** @constant */
            object: "detection_settings";
            rules: components["schemas"]["DetectionRule"][];
            /** @description Counts the changes; 0 before the first one. A change with another version than the current one is refused. */
            version: number;
            updated_at: components["schemas"]["Time"] | null;
            /** @description The API key or person that changed the rules last. */
            updated_by: string | null;
            warnings?: components["schemas"]["Warnings"];
        };
        /** @description DetectionSettings are the account's own rules for secrets. */
        DetectionSettingsInput: {
            rules?: components["schemas"]["DetectionRuleInput"][] | null;
            /** @description Counts the changes; 0 before the first one. A change with another version than the current one is refused. */
            version?: number;
        };
        /** @description DetectionTry is what rules have found in a text. */
        DetectionTry: {
            /** @constant */
            object: "detection_try";
            matches: components["schemas"]["TryMatch"][];
            /** @description Number of secrets, also of those that `matches` lacks. */
            total: number;
            /** @description The text with a mask in place of each secret. */
            masked: string;
            warnings?: components["schemas"]["Warnings"];
        };
        /** @description Domain is a host name that you own or claim to own. */
        Domain: {
            id: components["schemas"]["DomainId"];
            /** @constant */
            object: "domain";
            /** @description The host name alone, such as `www.example.com`. It is stored in lower-case ASCII. */
            hostname: string;
            status: string;
            /** @description The method that has verified the domain. */
            method: string | null;
            /** @description Proves the host name. It is no secret once it is published. */
            token: string;
            /** @description Name, type and value of the TXT record. */
            dns_record: string;
            /** @description URL of the file. Its content is the token alone, in at most 1 KiB. */
            http_url: string;
            verified_at: components["schemas"]["Time"] | null;
            /** @description When the proof was looked for last. */
            checked_at: components["schemas"]["Time"] | null;
            /** @description Of the last check. */
            last_method: string | null;
            /** @description Why the last check found no proof. `null` if it did. */
            last_error: string | null;
            /** @description What was found instead, in at most 200 bytes. Secrets are masked. */
            seen: string | null;
            /** @description What to do about the last check. */
            advice: string | null;
            /** @description When the domain expires without a proof. */
            expires_at: components["schemas"]["Time"] | null;
            created_by: string;
            created_at: components["schemas"]["Time"];
            updated_at: components["schemas"]["Time"];
            warnings?: components["schemas"]["Warnings"];
        };
        /** @description Domain is a host name that you own or claim to own. */
        DomainInput: {
            /** @description The host name alone, such as `www.example.com`. It is stored in lower-case ASCII. */
            hostname: string;
        };
        DomainList: {
            data: components["schemas"]["Domain"][];
            next_cursor?: components["schemas"]["NextCursor"];
        };
        /** @description Drain is a log drain. */
        Drain: {
            id: components["schemas"]["DrainId"];
            /** @constant */
            object: "drain";
            /** @description Printable. Default is the end of its id. */
            name: string;
            /** @description `auto`, the default, recognises the platform from each request and answers as it expects. */
            platform: string;
            status: string;
            /** @description Anyone who knows it can send lines, so read-only keys and agent keys see its token as `****` and four characters. */
            url: string;
            signing_secret_set: boolean;
            verify_code_set: boolean;
            /** @description That of the newest request of the last 24 hours that names one. */
            detected_platform: string | null;
            /** @description Arrival of the newest request of the last 24 hours, a refused one included. */
            last_received_at: components["schemas"]["Time"] | null;
            /** @description `null` while the store does not answer. */
            requests_24h: number | null;
            /** @description Secrets, each as often as it occurred. */
            hits_24h: number | null;
            /** @description Requests that were refused. */
            rejected_24h: number | null;
            /** @description After decompression. */
            bytes_24h: number | null;
            lines_24h: number | null;
            /** @description Why the newest refused request of the last 24 hours was refused. */
            last_error: string | null;
            /** @description Increases with each change. Send the version that you read: if it is outdated, the change is refused (`conflict`). */
            version: number;
            created_by: string;
            created_at: components["schemas"]["Time"];
            updated_at: components["schemas"]["Time"];
            warnings?: components["schemas"]["Warnings"];
        };
        /** @description Drain is a log drain. */
        DrainInput: {
            /** @description Printable. Default is the end of its id. */
            name?: string;
            /**
             * @description `auto`, the default, recognises the platform from each request and answers as it expects.
             * @enum {string}
             */
            platform?: "auto" | "vercel" | "heroku" | "firehose" | "cloudflare" | "generic";
            /** @enum {string} */
            status?: "active" | "paused";
            /** @description The signature secret that Vercel shows. While it is set, the drain answers 403 to requests without a valid `x-vercel-signature`. Only for `auto` and `vercel`. It is never shown again; `null` removes it. */
            signing_secret?: string | null;
            /** @description The code with which Vercel verifies the URL. Every answer has it as `x-vercel-verify`. `null` removes it. */
            verify_code?: string | null;
        };
        DrainList: {
            data: components["schemas"]["Drain"][];
            next_cursor?: components["schemas"]["NextCursor"];
        };
        /** @description Drain is a log drain. */
        DrainUpdate: {
            /** @description Printable. Default is the end of its id. */
            name?: string;
            /**
             * @description `auto`, the default, recognises the platform from each request and answers as it expects.
             * @enum {string}
             */
            platform?: "auto" | "vercel" | "heroku" | "firehose" | "cloudflare" | "generic";
            /** @enum {string} */
            status?: "active" | "paused";
            /** @description The signature secret that Vercel shows. While it is set, the drain answers 403 to requests without a valid `x-vercel-signature`. Only for `auto` and `vercel`. It is never shown again; `null` removes it. */
            signing_secret?: string | null;
            /** @description The code with which Vercel verifies the URL. Every answer has it as `x-vercel-verify`. `null` removes it. */
            verify_code?: string | null;
            /** @description Increases with each change. Send the version that you read: if it is outdated, the change is refused (`conflict`). */
            version?: number;
        };
        /** @description EndpointAlerts are the settings in which an endpoint differs from the account; `null` means as in the account. */
        EndpointAlerts: {
            /** @description Default `true`. */
            enabled: boolean;
            /** @description Channels that get the endpoint's alerts: all if `null`, none if empty. */
            channels: string[] | null;
            consecutive_failures: number | null;
            failure_rate_percent: number | null;
            /** @description No alert of the endpoint fires until then. One that fires already stays, and its end is announced. */
            muted_until: components["schemas"]["Time"] | null;
        };
        /** @description EndpointAlerts are the settings in which an endpoint differs from the account; `null` means as in the account. */
        EndpointAlertsInput: {
            /** @description Default `true`. */
            enabled?: boolean;
            /** @description Channels that get the endpoint's alerts: all if `null`, none if empty. */
            channels?: ("email" | "slack" | "webhook")[] | null;
            consecutive_failures?: number | null;
            failure_rate_percent?: number | null;
            /** @description No alert of the endpoint fires until then. One that fires already stays, and its end is announced. */
            muted_until?: components["schemas"]["InputTime"] | null;
        };
        /** @description EndpointDay is what an endpoint has used on a day. */
        EndpointDay: {
            /** Format: date */
            date: string;
            received: number;
            sent: number;
            total: number;
            bytes: number;
        };
        /** @description EndpointDays is the usage of one endpoint with its days. */
        EndpointDays: {
            endpoint_id: components["schemas"]["EndpointId"];
            received: number;
            sent: number;
            total: number;
            bytes: number;
            /** @description The days with an event, oldest first. */
            daily: components["schemas"]["EndpointDay"][];
        };
        EndpointList: {
            data: components["schemas"]["Endpoint"][];
            next_cursor?: components["schemas"]["NextCursor"];
        };
        /** @description EndpointTraffic is the response to GET /v1/endpoints/{endpoint}/traffic. */
        EndpointTraffic: {
            /** @constant */
            object: "endpoint_traffic";
            endpoint_id: string;
            range: string;
            step_seconds: number;
            destinations: components["schemas"]["DestinationTraffic"][];
            waiting: components["schemas"]["WaitingEvents"];
        };
        /** @description EndpointUsage is what one endpoint has used. */
        EndpointUsage: {
            endpoint_id: components["schemas"]["EndpointId"];
            received: number;
            sent: number;
            total: number;
            bytes: number;
        };
        /** @description Entity is what an audit entry is about. */
        Entity: {
            type: string;
            id: string;
        };
        /** @description Event is everything that is known of one event. */
        Event: {
            id: components["schemas"]["EventId"];
            /** @constant */
            object: "event";
            endpoint_id: components["schemas"]["EndpointId"];
            type: string | null;
            status: components["schemas"]["EventStatus"];
            source: string;
            /** @description Number of its deliveries by state. */
            destinations: components["schemas"]["EventCounts"];
            /** @description State of the newest processing receipt, `none` without one. */
            processing: string;
            size_bytes: number;
            received_at: components["schemas"]["Time"];
            last_attempt_at: components["schemas"]["Time"] | null;
            next_attempt_at: components["schemas"]["Time"] | null;
            reason: components["schemas"]["EventReason"] | null;
            /** @description Explains the status in one sentence, for people. It says so if no attempt is made at `next_attempt_at`, because the endpoint or a destination was deleted, disabled, purged or paused since. A list does not know the last attempt. */
            why: string;
            /** @description The same as values. */
            why_details: components["schemas"]["Why"];
            /** @description When the payload was erased on request. */
            payload_erased_at: components["schemas"]["Time"] | null;
            /** @description How far the origin of the event is proved. `verified`: by the provider's signature. `observed`: the signature is missing or wrong, and the endpoint only observes. `unverified`: the endpoint asks for no signature. `rejected`: the signature is missing or wrong. `sent`: through this API. Deliveries carry it as `relay-verification`. */
            verification: string;
            /** @description The newest 200 attempts, oldest first. Response bodies are cut to 1 KiB. */
            attempts: components["schemas"]["Attempt"][];
            /** @description Headers by name. Repeated ones are joined with a comma, bytes that are not UTF-8 are U+FFFD. */
            headers: {
                [key: string]: string;
            };
            /** @description `[name, value]` pairs as received, with repeats. Bytes of a value that are not UTF-8 are U+FFFD here; `headers_base64` has them. */
            headers_raw: components["schemas"]["HeaderPairs"];
            /** @description Present only if the value of a header is not UTF-8: for each pair, in its order, the value in base64, or `null`. */
            headers_base64?: components["schemas"]["HeadersBase64"];
            body: string;
            body_encoding: components["schemas"]["BodyEncoding"];
            content_type: string | null;
            method: string;
            query: string;
            remote_ip: string | null;
            idempotency_key: string | null;
            /** @description The event of which this one is a duplicate. */
            duplicate_of: string | null;
            /** @description The OpenTelemetry trace of the event; `null`: it was not traced. */
            trace_id: string | null;
            expires_at: components["schemas"]["Time"];
            deliveries: components["schemas"]["Delivery"][];
            attempts_truncated: boolean;
            /** @description Where the data does not match the newest schema of its type, if the endpoint has `validate`; `null`: nowhere. */
            mismatch: components["schemas"]["Mismatch"] | null;
            receipt: components["schemas"]["Receipt"] | null;
            /** @description Only for an event that was sent through the API: its `data`. */
            data?: components["schemas"]["EventData"];
        };
        /** @description EventBatchResult has the results of a batch, in its order. */
        EventBatchResult: {
            data: components["schemas"]["BatchItem"][];
            warnings?: components["schemas"]["Warnings"];
        };
        /** @description EventCounts counts the deliveries of an event by their state. */
        EventCounts: {
            total: number;
            delivered: number;
            failed: number;
            pending: number;
        };
        /** @description EventRow is an event in a list, and the answer to a send. */
        EventRow: {
            id: components["schemas"]["EventId"];
            /** @constant */
            object: "event";
            endpoint_id: components["schemas"]["EndpointId"];
            type: string | null;
            status: components["schemas"]["EventStatus"];
            source: string;
            /** @description Number of its deliveries by state. */
            destinations: components["schemas"]["EventCounts"];
            /** @description State of the newest processing receipt, `none` without one. */
            processing: string;
            size_bytes: number;
            received_at: components["schemas"]["Time"];
            last_attempt_at: components["schemas"]["Time"] | null;
            next_attempt_at: components["schemas"]["Time"] | null;
            reason: components["schemas"]["EventReason"] | null;
            /** @description Explains the status in one sentence, for people. It says so if no attempt is made at `next_attempt_at`, because the endpoint or a destination was deleted, disabled, purged or paused since. A list does not know the last attempt. */
            why: string;
            /** @description The same as values. */
            why_details: components["schemas"]["Why"];
            /** @description When the payload was erased on request. */
            payload_erased_at: components["schemas"]["Time"] | null;
            /** @description How far the origin of the event is proved. `verified`: by the provider's signature. `observed`: the signature is missing or wrong, and the endpoint only observes. `unverified`: the endpoint asks for no signature. `rejected`: the signature is missing or wrong. `sent`: through this API. Deliveries carry it as `relay-verification`. */
            verification: string;
            /** @description Number of HTTP attempts at all destinations. */
            attempts: number;
            /** @description The newest state at each destination. */
            deliveries: components["schemas"]["DeliveryState"][];
        };
        /** @description EventType is an entry of the catalogue of your event types. */
        EventType: {
            /** @constant */
            object: "event_type";
            /** @description The `type` of the events. In a path, `/` is written as `%2F`. */
            name: components["schemas"]["EventTypeName"];
            /** @description For people; Markdown. Default: empty. */
            description: string;
            /**
             * @description Groups types in lists. Default: empty.
             * @example Invoices
             */
            group: string;
            /** @description `true`: new receivers should not use it. Default `false`. */
            deprecated: boolean;
            /** @description `true`: it is neither in the public catalogue nor in the portal. Default `false`. */
            internal: boolean;
            /** @description Number of the newest version of the schema; `null` without one. */
            version: number | null;
            /** @description JSON Schema (2020-12) of `data` of sent events, and of the whole body of received ones. Another schema becomes the next version. `$ref` can only name a part of the schema, such as `#/$defs/address`, which does not contain itself. */
            schema: components["schemas"]["EventSchema"];
            /** @description Any JSON of at most 32 KiB; test events have it as `data`. */
            example: components["schemas"]["AnyJSON"];
            /** @description All versions of the schema, oldest first: the last ten, or those that fit into 240 KiB. */
            versions: components["schemas"]["EventTypeVersion"][];
            created_at: components["schemas"]["Time"];
            updated_at: components["schemas"]["Time"];
            warnings?: components["schemas"]["Warnings"];
        };
        /** @description EventType is an entry of the catalogue of your event types. */
        EventTypeInput: {
            /** @description The `type` of the events. In a path, `/` is written as `%2F`. */
            name?: components["schemas"]["EventTypeName"];
            /** @description For people; Markdown. Default: empty. */
            description?: string;
            /**
             * @description Groups types in lists. Default: empty.
             * @example Invoices
             */
            group?: string;
            /** @description `true`: new receivers should not use it. Default `false`. */
            deprecated?: boolean;
            /** @description `true`: it is neither in the public catalogue nor in the portal. Default `false`. */
            internal?: boolean;
            /** @description JSON Schema (2020-12) of `data` of sent events, and of the whole body of received ones. Another schema becomes the next version. `$ref` can only name a part of the schema, such as `#/$defs/address`, which does not contain itself. */
            schema?: components["schemas"]["EventSchema"];
            /** @description Any JSON of at most 32 KiB; test events have it as `data`. */
            example?: components["schemas"]["AnyJSON"];
        };
        EventTypeList: {
            data: components["schemas"]["EventType"][];
            next_cursor?: components["schemas"]["NextCursor"];
        };
        /** @description EventTypeSeen is a type of recent events. */
        EventTypeSeen: {
            name: components["schemas"]["EventTypeName"];
            /** @description Number of events with it among the newest 1,000. */
            events: number;
            /** @description Whether the catalogue has it. */
            known: boolean;
        };
        /** @description EventTypeVersion is a version of the schema of an event type. */
        EventTypeVersion: {
            version: number;
            schema: components["schemas"]["EventSchema"];
            example: components["schemas"]["AnyJSON"];
            created_at: components["schemas"]["Time"];
        };
        /** @description EventTypesImported is the result of an import. */
        EventTypesImported: {
            /** @constant */
            object: "event_types_imported";
            created: number;
            updated: number;
            unchanged: number;
        };
        /** @description EventTypesSeen are the types of the newest 1,000 events. */
        EventTypesSeen: {
            /** @constant */
            object: "event_types_seen";
            types: components["schemas"]["EventTypeSeen"][];
        };
        /** @description FailedFinding is a finding that was not updated. */
        FailedFinding: {
            id: string;
            /** @description The type of the error. */
            type: string;
            message: string;
        };
        /** @description Failure says which operation failed and where; index is null if the sample or the result is at fault. */
        Failure: {
            /** @description The operation that failed; `null`: the sample or the result is at fault. */
            index: number | null;
            /** @description JSON Pointer to the place; empty for the whole document. */
            pointer: string;
            message: string;
        };
        /** @description FilterPreview says which of the newest events pass a filter. */
        FilterPreview: {
            /** @description Newest first. Erased events are left out, and older ones if their bodies are too large or take too long to read. */
            data: components["schemas"]["FilteredEvent"][];
            /** @description How many pass. */
            passed: number;
            /** @description How many have an `error`. */
            failed: number;
            warnings?: components["schemas"]["Warnings"];
        };
        /** @description FilteredEvent says whether an event passes a filter. */
        FilteredEvent: {
            event_id: components["schemas"]["EventId"];
            type: string | null;
            received_at: components["schemas"]["Time"];
            passes: boolean;
            /** @description Why the conditions have no value for it: its delivery would end `failed`, `transform_failed`. */
            error: string | null;
        };
        /** @description Finding is a leaked secret, an exposed file or a used tripwire, with where it was seen. */
        Finding: {
            id: components["schemas"]["FindingId"];
            /** @constant */
            object: "finding";
            kind: string;
            /** @description Id of the rule that found it; `flood` if a sender reports too many findings. */
            rule: string;
            /** @description Name of the rule. */
            name: string;
            /**
             * @description Whose key it is.
             * @example Stripe
             */
            provider: string | null;
            /** @description Page of the provider about keys of this kind. */
            docs_url: string | null;
            severity: components["schemas"]["FindingSeverity"];
            status: string;
            /** @description The beginning and the end of the key. */
            masked: string | null;
            /** @description A keyed hash of the key. `null` if the key could be guessed. */
            fingerprint: string | null;
            sources: components["schemas"]["FindingSource"][];
            first_seen: components["schemas"]["Time"];
            last_seen: components["schemas"]["Time"];
            /** @description How often it was seen. */
            occurrences: number;
            /** @description `true` if only browsers or events without a verified signature have reported it. */
            unverified: boolean;
            /** @description `true` if only test keys were seen. */
            test: boolean;
            /** @description Id of the API key of this service that was found. */
            key_id: string | null;
            /** @description Of the newest occurrence. */
            environment: string | null;
            /** @description Of the newest occurrence. */
            release: string | null;
            /** @description Where it was seen, the newest first. */
            locations: components["schemas"]["FindingLocation"][];
            /** @description `revoked`, `removed` or `false_positive`. */
            resolution: string | null;
            /** @description `false_positive`, `used_in_tests` or `accepted_risk`. */
            ignore_reason: string | null;
            /** @description When an ignored finding is opened again; `null` for never. */
            ignore_until: components["schemas"]["Time"] | null;
            resolved_at: components["schemas"]["Time"] | null;
            /** @description When the service last opened it again because the key was still seen. */
            regressed_at: components["schemas"]["Time"] | null;
            note: string | null;
            /** @description Id of the person or the API key that changed it last. */
            updated_by: string | null;
            /** @description Counts the changes. */
            version: number;
            warnings?: components["schemas"]["Warnings"];
        };
        /** @description FindingChange is what a request changes of a finding; nil: nothing. */
        FindingChangeInput: {
            /** @enum {string|null} */
            status?: "open" | "acknowledged" | "resolved" | "ignored" | null;
            /**
             * @description Required when the finding becomes `resolved`.
             * @enum {string|null}
             */
            resolution?: "revoked" | "removed" | "false_positive" | null;
            /**
             * @description Required when the finding becomes `ignored`.
             * @enum {string|null}
             */
            ignore_reason?: "false_positive" | "used_in_tests" | "accepted_risk" | null;
            /** @description Only for an ignored finding: when it is opened again. `null` for never; a finding without `fingerprint` may hold several secrets and is opened again after a day at the latest. */
            ignore_until?: components["schemas"]["InputTime"] | null;
            /** @description Keys in it are masked. */
            note?: string | null;
            /** @description The version that you have seen. */
            version?: number | null;
        };
        FindingList: {
            data: components["schemas"]["Finding"][];
            next_cursor?: components["schemas"]["NextCursor"];
        };
        /** @description FindingsUpdated counts the findings that a bulk update has changed. */
        FindingsUpdated: {
            /** @constant */
            object: "findings_update";
            updated: number;
            /** @description Findings that already had the requested state. */
            unchanged: number;
            failed: components["schemas"]["FailedFinding"][];
            /** @description There are more findings of the drain and rule. Send the call again. */
            more: boolean;
        };
        /** @description Fixture is an event without secrets and personal data, for tests, with the answer that is expected. */
        Fixture: {
            id: components["schemas"]["FixtureId"];
            /** @constant */
            object: "fixture";
            name: string;
            source_event_id: components["schemas"]["EventId"];
            /** @description That of the event, which may have been deleted. */
            endpoint_id: string;
            /** @description Without secrets and personal data. */
            event_type: string | null;
            method: string;
            expected_status: number;
            /** @description Of the body. */
            size_bytes: number;
            /** @description Values of the event that are redacted and not kept. */
            removed: number;
            /** @description Whether the body was given, and is not that of the event. */
            edited: boolean;
            expires_at: components["schemas"]["Time"];
            /** @description Counts the changes. */
            version: number;
            created_by: string;
            created_at: components["schemas"]["Time"];
            updated_at: components["schemas"]["Time"];
            /** @description The sanitised JSON. */
            body: unknown;
            /** @description What the sanitiser replaces in the event, with what is kept. */
            redactions: components["schemas"]["Redaction"][];
            keep: string[];
            required: components["schemas"]["RequiredField"][];
            warnings?: components["schemas"]["Warnings"];
        };
        /** @description FixtureChange is what a request says of a fixture; nil: nothing. */
        FixtureChangeInput: {
            event_id: components["schemas"]["EventId"];
            /** @description Printable characters. */
            name?: string;
            /** @description Any JSON of at most 256 KiB and 64 levels, instead of the sanitised event. */
            body?: unknown;
            /** @description Pointers of `redactions` whose values stay as they are in the event. Not those of secrets, and not together with `body`. */
            keep?: string[] | null;
            /** @description Default 200. */
            expected_status?: number;
            /** @description What the JSON of the answer must have. */
            required?: components["schemas"]["RequiredField"][] | null;
            /** @description One hour to 90 days from now, 14 days by default. */
            expires_at?: components["schemas"]["FixtureExpiry"];
        };
        /** @description FixtureChange is what a request says of a fixture; nil: nothing. */
        FixtureChangeUpdate: {
            event_id?: components["schemas"]["EventId"];
            /** @description Printable characters. */
            name?: string;
            /** @description Any JSON of at most 256 KiB and 64 levels, instead of the sanitised event. */
            body?: unknown;
            /** @description Pointers of `redactions` whose values stay as they are in the event. Not those of secrets, and not together with `body`. */
            keep?: string[] | null;
            /** @description Default 200. */
            expected_status?: number;
            /** @description What the JSON of the answer must have. */
            required?: components["schemas"]["RequiredField"][] | null;
            /** @description One hour to 90 days from now, 14 days by default. */
            expires_at?: components["schemas"]["FixtureExpiry"];
            /** @description The version that was read. */
            version?: number;
        };
        /** @description FixtureSummary is a fixture in a list. */
        FixtureSummary: {
            id: components["schemas"]["FixtureId"];
            /** @constant */
            object: "fixture";
            name: string;
            source_event_id: components["schemas"]["EventId"];
            /** @description That of the event, which may have been deleted. */
            endpoint_id: string;
            /** @description Without secrets and personal data. */
            event_type: string | null;
            method: string;
            expected_status: number;
            /** @description Of the body. */
            size_bytes: number;
            /** @description Values of the event that are redacted and not kept. */
            removed: number;
            /** @description Whether the body was given, and is not that of the event. */
            edited: boolean;
            expires_at: components["schemas"]["Time"];
            /** @description Counts the changes. */
            version: number;
            created_by: string;
            created_at: components["schemas"]["Time"];
            updated_at: components["schemas"]["Time"];
        };
        FixtureSummaryList: {
            data: components["schemas"]["FixtureSummary"][];
            next_cursor?: components["schemas"]["NextCursor"];
        };
        HTTPBatch: {
            /** @description A batch leaves when it has so many events. Default 100. */
            max_events: number;
            /** @description How long events gather in a batch, in seconds. Default 2. */
            flush_seconds: number;
            /** @description Largest body of a request. A larger event fails as too_large. Default 1048576. */
            max_bytes: number;
        };
        HTTPBatchInput: {
            /** @description A batch leaves when it has so many events. Default 100. */
            max_events?: number;
            /** @description How long events gather in a batch, in seconds. Default 2. */
            flush_seconds?: number;
            /** @description Largest body of a request. A larger event fails as too_large. Default 1048576. */
            max_bytes?: number;
        };
        /** @description Header is a header that the verification reads, with its values as received. */
        Header: {
            name: string;
            values: string[];
        };
        /** @description Hour is one hour of an endpoint. */
        Hour: {
            at: components["schemas"]["Time"];
            requests: number;
            delivered: number;
            failed: number;
        };
        IngestLimit: {
            events_per_second: number | null;
            /** @description Bytes of bodies per second. A body above the limit is accepted after a second without other events. */
            bytes_per_second: number | null;
        };
        IngestLimitInput: {
            events_per_second?: number | null;
            /** @description Bytes of bodies per second. A body above the limit is accepted after a second without other events. */
            bytes_per_second?: number | null;
        };
        /** @description Issue is what failed at one destination for one cause. */
        Issue: {
            id: components["schemas"]["IssueId"];
            /** @constant */
            object: "issue";
            endpoint_id: components["schemas"]["EndpointId"];
            /** @description `null`: the endpoint was deleted. */
            endpoint_name: string | null;
            destination_id: components["schemas"]["DestinationId"];
            destination_name: string | null;
            /**
             * @description `http_` and the status of the answer, an `error_code` of an attempt, or the `reason` of deliveries without one. A destination has at most 20 causes; the rest are counted as `other`.
             * @example http_503
             */
            cause: string;
            /** @description A resolved issue opens again with the next failure. One whose destination was deleted, or works again an hour after the last failure, is resolved by the service. */
            status: string;
            first_seen_at: components["schemas"]["Time"];
            last_seen_at: components["schemas"]["Time"];
            /** @description Failed requests, and deliveries that failed without one. It is at most a minute behind. */
            count: number;
            /** @description The newest events that it concerns, newest first. */
            events: string[];
            /** @description How often it was resolved and opened again. */
            reopened: number;
            resolved_at: components["schemas"]["Time"] | null;
            /** @description When a request to the destination succeeded, if none has failed for this cause since; `null`: none has. */
            works_again_at: components["schemas"]["Time"] | null;
            /** @description When the oldest event that failed was received. */
            oldest_event_at: components["schemas"]["Time"] | null;
            /** @description How many events since then have failed for good at the destination, at most 1,000. `null`: not counted, as in lists and while the event store is late. */
            failed_events: number | null;
            /**
             * @description Who takes care of it. Default: empty.
             * @example ops@example.com
             */
            assignee: string;
            note: string;
            created_at: components["schemas"]["Time"];
            updated_at: components["schemas"]["Time"];
            warnings?: components["schemas"]["Warnings"];
        };
        IssueCounted: {
            total: number;
            data: components["schemas"]["Issue"][];
        };
        /** @description Issue is what failed at one destination for one cause. */
        IssueInput: {
            /**
             * @description A resolved issue opens again with the next failure. One whose destination was deleted, or works again an hour after the last failure, is resolved by the service.
             * @enum {string}
             */
            status?: "open" | "acknowledged" | "resolved";
            /**
             * @description Who takes care of it. Default: empty.
             * @example ops@example.com
             */
            assignee?: string;
            note?: string;
        };
        IssueList: {
            data: components["schemas"]["Issue"][];
            next_cursor?: components["schemas"]["NextCursor"];
        };
        Kafka: {
            /**
             * @description Addresses of brokers as host:port; the others are found by them. Required.
             * @example [
             *       "kafka-1.example.com:9093"
             *     ]
             */
            brokers: string[];
            /**
             * @description The topic, which must exist. Required.
             * @example orders
             */
            topic: string;
            /**
             * @description Key of the records: event_id, endpoint_id, type, none, or a value of the event as body:$.data.id or header:X-Shop. Records with the same key go to the same partition. Default event_id.
             * @example body:$.data.id
             */
            key: string;
            /** @description Mechanism of user name and password. Default none. */
            sasl?: string;
            /**
             * @description For sasl.
             * @example relay
             */
            username?: string;
            /**
             * @description For sasl. Masked in responses; its mask means unchanged.
             * @example ****4f2a
             */
            password?: string;
            /** @description Connect without TLS. Needs RELAY_EGRESS_ALLOW_HTTP. Default false. */
            plaintext: boolean;
            /**
             * @description Root certificates of the brokers in PEM form, beside those that the relay trusts.
             * @example -----BEGIN CERTIFICATE-----…
             */
            ca?: string;
            /** @description The topic's max.message.bytes. A larger event fails as too_large. Default 1000000. */
            max_record_bytes: number;
            /** @description Compression of the records. Default none. */
            compression: string;
        };
        KafkaInput: {
            /**
             * @description Addresses of brokers as host:port; the others are found by them. Required.
             * @example [
             *       "kafka-1.example.com:9093"
             *     ]
             */
            brokers?: string[];
            /**
             * @description The topic, which must exist. Required.
             * @example orders
             */
            topic?: string;
            /**
             * @description Key of the records: event_id, endpoint_id, type, none, or a value of the event as body:$.data.id or header:X-Shop. Records with the same key go to the same partition. Default event_id.
             * @example body:$.data.id
             */
            key?: string;
            /**
             * @description Mechanism of user name and password. Default none.
             * @enum {string|null}
             */
            sasl?: "plain" | "scram-sha-256" | "scram-sha-512" | null;
            /**
             * @description For sasl.
             * @example relay
             */
            username?: string | null;
            /**
             * @description For sasl. Masked in responses; its mask means unchanged.
             * @example ****4f2a
             */
            password?: string | null;
            /** @description Connect without TLS. Needs RELAY_EGRESS_ALLOW_HTTP. Default false. */
            plaintext?: boolean;
            /**
             * @description Root certificates of the brokers in PEM form, beside those that the relay trusts.
             * @example -----BEGIN CERTIFICATE-----…
             */
            ca?: string | null;
            /** @description The topic's max.message.bytes. A larger event fails as too_large. Default 1000000. */
            max_record_bytes?: number;
            /**
             * @description Compression of the records. Default none.
             * @enum {string}
             */
            compression?: "none" | "gzip" | "snappy" | "lz4" | "zstd";
        };
        KafkaSource: {
            /**
             * @description Addresses of brokers as host:port; the others are found by them. Required.
             * @example [
             *       "kafka-1.example.com:9093"
             *     ]
             */
            brokers: string[];
            /**
             * @description The topic, which must exist. Required.
             * @example orders
             */
            topic: string;
            /**
             * @description The consumer group in which the relay commits how far it has read. No other program may use it. Default eventrelay- and the id of the endpoint.
             * @example eventrelay-orders
             */
            group: string;
            /** @description Where to begin if the group has no position: with the oldest record, or with those that come. Default latest. */
            start: string;
            /** @description Mechanism of user name and password. Default none. */
            sasl?: string;
            /**
             * @description For sasl. It needs the rights to read the topic and the group.
             * @example relay
             */
            username?: string;
            /**
             * @description For sasl. Masked in responses; its mask means unchanged.
             * @example ****4f2a
             */
            password?: string;
            /** @description Connect without TLS. Needs RELAY_EGRESS_ALLOW_HTTP. Default false. */
            plaintext: boolean;
            /**
             * @description Root certificates of the brokers in PEM form, beside those that the relay trusts.
             * @example -----BEGIN CERTIFICATE-----…
             */
            ca?: string;
        };
        KafkaSourceInput: {
            /**
             * @description Addresses of brokers as host:port; the others are found by them. Required.
             * @example [
             *       "kafka-1.example.com:9093"
             *     ]
             */
            brokers?: string[];
            /**
             * @description The topic, which must exist. Required.
             * @example orders
             */
            topic?: string;
            /**
             * @description The consumer group in which the relay commits how far it has read. No other program may use it. Default eventrelay- and the id of the endpoint.
             * @example eventrelay-orders
             */
            group?: string;
            /**
             * @description Where to begin if the group has no position: with the oldest record, or with those that come. Default latest.
             * @enum {string}
             */
            start?: "earliest" | "latest";
            /**
             * @description Mechanism of user name and password. Default none.
             * @enum {string|null}
             */
            sasl?: "plain" | "scram-sha-256" | "scram-sha-512" | null;
            /**
             * @description For sasl. It needs the rights to read the topic and the group.
             * @example relay
             */
            username?: string | null;
            /**
             * @description For sasl. Masked in responses; its mask means unchanged.
             * @example ****4f2a
             */
            password?: string | null;
            /** @description Connect without TLS. Needs RELAY_EGRESS_ALLOW_HTTP. Default false. */
            plaintext?: boolean;
            /**
             * @description Root certificates of the brokers in PEM form, beside those that the relay trusts.
             * @example -----BEGIN CERTIFICATE-----…
             */
            ca?: string | null;
        };
        /** @description KeptTransformationVersion is a version with its operations. Sent back as the transformation of the endpoint, they become its newest version. */
        KeptTransformationVersion: {
            version: number;
            created_at: components["schemas"]["Time"];
            created_by: components["schemas"]["AuditActor"];
            /** @description How many it has; 0 ended the transformation. */
            operations: number;
            /** @description `true`: the destination has that of the endpoint again. */
            inherits?: boolean;
            /** @description `null`: it had no operations, or they are not kept any more. */
            transformation: components["schemas"]["Transformation"] | null;
            /** @description `false`: its operations are not kept any more. */
            restorable: boolean;
        };
        /** @description KeyUse counts the requests with a key at one node. */
        KeyUse: {
            count: number;
            last_at: components["schemas"]["Time"];
            node: string;
        };
        /** @description Latency has quantiles of the durations of requests in milliseconds; `null` without requests. */
        Latency: {
            p50: number;
            p95: number;
            p99: number;
        };
        /** @description Me is the API key of a request. */
        Me: {
            account_id: string;
            key_id: components["schemas"]["KeyId"];
            key_name: string;
            scope: string;
            /** @description `true` for the key of an agent. It cannot make changes through the API; a person approves them in the dashboard. */
            agent: boolean;
            /** @description The tenant that the key is restricted to. Missing without one. */
            tenant?: components["schemas"]["TenantName"];
            /** @description Version of the service. */
            version: string;
        };
        /** @description MeasuredRequests counts requests to destinations. A delivery that is retried has several. */
        MeasuredRequests: {
            requests: number;
            /** @description Requests that succeeded. */
            delivered: number;
            /** @description Requests that failed. */
            failed: number;
            /** @description First attempts of automatic deliveries. */
            first_attempts: number;
            /** @description Those of them that succeeded. */
            first_attempts_delivered: number;
            /** @description Quantiles of the durations of the requests; `null` without requests. */
            latency_ms: components["schemas"]["Latency"] | null;
        };
        /** @description MeasuredStep is one step of time, such as a minute. */
        MeasuredStep: {
            /** @description When the step begins. */
            at: components["schemas"]["Time"];
            requests: number;
            /** @description Requests that succeeded. */
            delivered: number;
            /** @description Requests that failed. */
            failed: number;
            /** @description First attempts of automatic deliveries. */
            first_attempts: number;
            /** @description Those of them that succeeded. */
            first_attempts_delivered: number;
            /** @description Quantiles of the durations of the requests; `null` without requests. */
            latency_ms: components["schemas"]["Latency"] | null;
        };
        /** @description Mismatch says where the data of an event does not match the schema of its type. */
        Mismatch: {
            /** @description Of the schema. */
            version: number;
            /** @description JSON Pointer (RFC 6901) into `data` of a sent event, or into the body of a received one. */
            pointer: string;
            message: string;
        };
        /** @description Occurrence is one hit, or several equal ones in one request. */
        Occurrence: {
            /** @constant */
            object: "occurrence";
            at: components["schemas"]["Time"];
            /** @description The line's own time, at most `at`. */
            observed_at: components["schemas"]["Time"];
            /** @description How often it was seen in the request. */
            count: number;
            source: components["schemas"]["FindingSource"];
            /** @description Part of the source, such as `log`. */
            channel: string | null;
            severity: components["schemas"]["FindingSeverity"];
            unverified: boolean;
            test: boolean;
            location: components["schemas"]["FindingPlace"];
            environment: string | null;
            release: string | null;
            /** @description HTTP method of the request. */
            method: string | null;
            user_agent: string | null;
            /** @description Of the sender; `null` after 30 days. */
            remote_ip: string | null;
            /** @description The /24 or /48 of the sender, which stays. */
            remote_network: string | null;
        };
        OccurrenceList: {
            data: components["schemas"]["Occurrence"][];
            next_cursor?: components["schemas"]["NextCursor"];
        };
        Ordering: {
            /**
             * @description Which events are delivered one after the other: all of the endpoint, or those with the same value at a path of the JSON body or in a header. Events without a value have no order. Required.
             * @example body:$.data.id
             */
            by: string;
            /** @description block: those behind it wait until a replay or a recovery job has delivered it, or until this is skip. skip: the next one is delivered. Default block. */
            when_failed?: string;
            /** @description unordered: they are delivered at once and hold up none, so that a stranger who knows ingest_url cannot stop the others with an event that fails. ordered: they have the order of all others. Events that are sent through the API count as verified. Default unordered. Without this member the order is older than it: all events are ordered but those whose verification failed. */
            unverified?: string;
        };
        OrderingInput: {
            /**
             * @description Which events are delivered one after the other: all of the endpoint, or those with the same value at a path of the JSON body or in a header. Events without a value have no order. Required.
             * @example body:$.data.id
             */
            by?: string;
            /**
             * @description block: those behind it wait until a replay or a recovery job has delivered it, or until this is skip. skip: the next one is delivered. Default block.
             * @enum {string|null}
             */
            when_failed?: "block" | "skip" | null;
            /**
             * @description unordered: they are delivered at once and hold up none, so that a stranger who knows ingest_url cannot stop the others with an event that fails. ordered: they have the order of all others. Events that are sent through the API count as verified. Default unordered. Without this member the order is older than it: all events are ordered but those whose verification failed.
             * @enum {string|null}
             */
            unverified?: "unordered" | "ordered" | null;
        };
        /** @description Overage counts what exceeds the allowance. */
        Overage: {
            /** @description Events above the allowance. */
            events: number;
        };
        /** @description Overview is what needs a person now, and the traffic of the last day. */
        Overview: {
            /** @constant */
            object: "overview";
            /** @description When it was made. */
            at: components["schemas"]["Time"];
            needs: components["schemas"]["OverviewNeeds"];
            /** @description Null while the event store does not answer. */
            traffic: components["schemas"]["OverviewTraffic"] | null;
        };
        /** @description OverviewEndpoint is an endpoint in an overview. */
        OverviewEndpoint: {
            endpoint_id: string;
            /** @description `null`: the endpoint was deleted. */
            name: string | null;
            /** @example shopify */
            provider: string | null;
            last_hour: components["schemas"]["MeasuredRequests"];
            /** @description The last 24 hours with any request, oldest first; the current hour is the last of the 24. */
            hours: components["schemas"]["Hour"][];
            /** @description The destinations with any request in the last hour, removed ones included. */
            destinations: components["schemas"]["DestinationRequests"][];
        };
        /** @description OverviewNeeds is what needs a person. `total` counts all; `data` has the first 20. */
        OverviewNeeds: {
            /** @description Alerts that fire. */
            alerts: components["schemas"]["AlertCounted"];
            /** @description Open issues, the last failure first. */
            issues: components["schemas"]["IssueCounted"];
            /** @description Destinations that are held, and those that the service has disabled; then those that are paused. */
            destinations: components["schemas"]["WaitingDestinationCounted"];
            /** @description Recovery jobs that wait for approval. */
            recoveries: components["schemas"]["WaitingRecoveryCounted"];
            /** @description Open findings of critical severity, then those of high severity, each newest first. */
            findings: components["schemas"]["CriticalFindingCounted"];
        };
        /** @description OverviewTraffic is the traffic of an account. */
        OverviewTraffic: {
            last_hour: components["schemas"]["MeasuredRequests"];
            /** @description The minutes of the last hour with any request, oldest first. */
            minutes: components["schemas"]["MeasuredStep"][];
            /** @description The range of total, steps and day_before. */
            range: string;
            step_seconds: number;
            /** @description The requests of the range. A range of more than 24h has no latency. */
            total: components["schemas"]["MeasuredRequests"];
            /** @description The steps of the range with any request, oldest first. */
            steps: components["schemas"]["MeasuredStep"][];
            /** @description The same steps one day before; empty for a range of more than 24h. */
            day_before: components["schemas"]["MeasuredStep"][];
            /** @description The endpoints with the most requests in the last 24 hours. */
            busiest: components["schemas"]["OverviewEndpoint"][];
            /** @description The endpoints with the greatest part of failed requests in the last hour. */
            worst: components["schemas"]["OverviewEndpoint"][];
        };
        /** @description PayloadErased is the response to an erasure, the same for the first call and every repeat. */
        PayloadErased: {
            id: components["schemas"]["EventId"];
            /** @constant */
            object: "event";
            payload_erased_at: components["schemas"]["Time"];
        };
        /** @description PortalLink is a link to the pages of a tenant, and then the session of who has opened it. */
        PortalLink: {
            id: components["schemas"]["LinkId"];
            /** @constant */
            object: "portal_link";
            tenant: components["schemas"]["TenantName"];
            /**
             * Format: uri
             * @description Address to send the person's browser to. It can be opened once. Only in the answer that creates it.
             */
            url?: string;
            /** @description With `use` `api`, in place of `url`: the bearer token of the session. Only in the answer that creates it. */
            token?: string;
            /** @description `pages`: the link leads to the pages of the portal. `api`: the answer has a `token`, with which pages of RELAY_PORTAL_ORIGINS call the API: as the pages of the portal would, with the same rights, for `session_seconds`. Default `pages`. */
            use: string;
            /** @description What the person may do: `view` destinations, events and attempts; change `destinations`; see and rotate signing `secrets`; `replay` events; send `test` events. `view` is always included. Default `view`. */
            can: string[];
            /**
             * Format: uri
             * @description Page of your application that the portal leads back to. Its origin must be in RELAY_PORTAL_ORIGINS.
             */
            return_url: string | null;
            /**
             * Format: uri
             * @description Page of your application that creates the next link and leads to it. The portal opens it when the session has ended. Its origin must be in RELAY_PORTAL_ORIGINS.
             */
            refresh_url: string | null;
            /** @description Language of the pages. Default `null`: the first that the browser asks for and the portal has, else English. */
            lang: string | null;
            /** @description `light` or `dark` pages; `auto`: as the browser prefers. `?theme=` at the end of `url` overrides it. Default `auto`. */
            theme: string;
            /** @description How long the session lasts once the link is opened. Default 3600, an hour. */
            session_seconds: number;
            /** @description When the link was opened; `null`: it can still be. */
            opened_at: components["schemas"]["Time"] | null;
            /** @description When the link ends; once it is opened, when the session does. */
            ends_at: components["schemas"]["Time"];
            created_at: components["schemas"]["Time"];
        };
        /** @description PortalLink is a link to the pages of a tenant, and then the session of who has opened it. */
        PortalLinkInput: {
            /**
             * @description `pages`: the link leads to the pages of the portal. `api`: the answer has a `token`, with which pages of RELAY_PORTAL_ORIGINS call the API: as the pages of the portal would, with the same rights, for `session_seconds`. Default `pages`.
             * @enum {string}
             */
            use?: "pages" | "api";
            /** @description What the person may do: `view` destinations, events and attempts; change `destinations`; see and rotate signing `secrets`; `replay` events; send `test` events. `view` is always included. Default `view`. */
            can?: ("view" | "destinations" | "secrets" | "replay" | "test")[];
            /**
             * Format: uri
             * @description Page of your application that the portal leads back to. Its origin must be in RELAY_PORTAL_ORIGINS.
             */
            return_url?: string | null;
            /**
             * Format: uri
             * @description Page of your application that creates the next link and leads to it. The portal opens it when the session has ended. Its origin must be in RELAY_PORTAL_ORIGINS.
             */
            refresh_url?: string | null;
            /**
             * @description Language of the pages. Default `null`: the first that the browser asks for and the portal has, else English.
             * @enum {string|null}
             */
            lang?: "en" | "de" | "fr" | "es" | "ja" | null;
            /**
             * @description `light` or `dark` pages; `auto`: as the browser prefers. `?theme=` at the end of `url` overrides it. Default `auto`.
             * @enum {string}
             */
            theme?: "auto" | "light" | "dark";
            /** @description How long the link can be opened. Default 600, ten minutes. */
            expires_seconds?: number;
            /** @description How long the session lasts once the link is opened. Default 3600, an hour. */
            session_seconds?: number;
        };
        PortalLinkList: {
            data: components["schemas"]["PortalLink"][];
            next_cursor?: components["schemas"]["NextCursor"];
        };
        /** @description Projection is the expected usage at the end of the period. */
        Projection: {
            events: number;
            overage_events: number;
            /** @description `last_7_days`: the usage so far, plus the rate of the last seven days for the rest of the period. */
            method: string;
            /** @description `low` in the first 24 hours of a period, or of the account. */
            confidence: string;
            /** @description In minor units of the currency; `null` if there is no price. */
            overage_amount: number | null;
            currency: string | null;
        };
        Pull: {
            /**
             * @description How long a consumer has to acknowledge an event that it has pulled, in seconds. Then the attempt has failed (not_acknowledged), and the event is delivered again. Default 60.
             * @example 60
             */
            lease_seconds: number;
        };
        PullInput: {
            /**
             * @description How long a consumer has to acknowledge an event that it has pulled, in seconds. Then the attempt has failed (not_acknowledged), and the event is delivered again. Default 60.
             * @example 60
             */
            lease_seconds?: number;
        };
        /** @description Pulled is the answer to a pull. */
        Pulled: {
            data: components["schemas"]["PulledEvent"][];
        };
        /** @description PulledEvent is an event that a consumer has fetched, with the headers and the body of a delivery. */
        PulledEvent: {
            event_id: components["schemas"]["EventId"];
            /** @description Names the lease. Acknowledge it. */
            attempt_id: components["schemas"]["AttemptId"];
            endpoint_id: components["schemas"]["EndpointId"];
            type: string | null;
            received_at: components["schemas"]["Time"];
            /** @description Number of the attempt, as the header `relay-attempt`. */
            attempt: number;
            /** @description Until when to acknowledge it. Then it is delivered again. */
            leased_until: components["schemas"]["Time"];
            /** @description Those of a delivery, names in lower case. `webhook-signature` covers the bytes of the body. */
            headers: {
                [key: string]: string;
            };
            body: string;
            /** @description `base64` if the body is not UTF-8. */
            body_encoding: components["schemas"]["BodyEncoding"];
        };
        RateLimit: {
            /** @description Deliveries per second. Required if there is no limit yet. */
            per_second: number;
            /** @description Deliveries that may be made at once after a pause. Default: the deliveries of one second, at least 1. */
            burst: number;
        };
        RateLimitInput: {
            /** @description Deliveries per second. Required if there is no limit yet. */
            per_second?: number;
            /** @description Deliveries that may be made at once after a pause. Default: the deliveries of one second, at least 1. */
            burst?: number;
        };
        /** @description Receipt is what the application has reported of an event. */
        Receipt: {
            state: string;
            reference: string | null;
            details: components["schemas"]["ReceiptDetails"];
            created_at: components["schemas"]["Time"] | null;
            updated_at: components["schemas"]["Time"];
        };
        /** @description ReceiptResult is the response to a processing receipt: the receipt that is now in effect. */
        ReceiptResult: {
            event_id: components["schemas"]["EventId"];
            state: string;
            reference: string | null;
            details: components["schemas"]["ReceiptDetails"];
            /** @description `false` if the event was already `processed` and this call reports another state; the receipt stays as it was. */
            applied: boolean;
            /** @description When the first receipt was reported; `null` while the store is behind. */
            created_at: components["schemas"]["Time"] | null;
            updated_at: components["schemas"]["Time"];
            warnings?: components["schemas"]["Warnings"];
        };
        Reconcile: {
            /**
             * @description Of the provider's API: a restricted key of Stripe with Events: Read, or a token of GitHub with Webhooks: Read and write. Masked in responses; its mask means unchanged. Required.
             * @example ****4f2a
             */
            credential: string;
            /**
             * @description For github: the webhook as its API names it, repos/OWNER/REPO/hooks/ID or orgs/ORG/hooks/ID. Required there.
             * @example repos/example/shop/hooks/42
             */
            hook?: string;
            /**
             * @description Only events of these types, as the provider names them. Default: all.
             * @example [
             *       "invoice.paid"
             *     ]
             */
            types: string[];
            /** @description Seconds between two looks. Default 300. */
            every_seconds: number;
            /**
             * @description Events before this time are not fetched. Default: when reconcile was set. Events that arrived before that and failed at another webhook of the account may come again.
             * @example 2026-06-01T00:00:00.000Z
             */
            since: components["schemas"]["Time"];
            /**
             * Format: uri
             * @description For GitHub Enterprise Server: https://HOST/api/v3. Default: that of the provider.
             * @example https://github.example.com/api/v3
             */
            api_url: string;
        };
        /** @description ReconcileCounts are what looks have found. */
        ReconcileCounts: {
            /** @description Events that the provider could not deliver. Those of Stripe may have failed at another webhook of the account. */
            found: number;
            /** @description Of them fetched and stored as new events. */
            stored: number;
            /** @description Of them that the provider was asked to deliver again. */
            asked: number;
            /** @description Of them that it was asked for five times, and that failed again. */
            given_up: number;
        };
        ReconcileInput: {
            /**
             * @description Of the provider's API: a restricted key of Stripe with Events: Read, or a token of GitHub with Webhooks: Read and write. Masked in responses; its mask means unchanged. Required.
             * @example ****4f2a
             */
            credential?: string;
            /**
             * @description For github: the webhook as its API names it, repos/OWNER/REPO/hooks/ID or orgs/ORG/hooks/ID. Required there.
             * @example repos/example/shop/hooks/42
             */
            hook?: string | null;
            /**
             * @description Only events of these types, as the provider names them. Default: all.
             * @example [
             *       "invoice.paid"
             *     ]
             */
            types?: string[];
            /** @description Seconds between two looks. Default 300. */
            every_seconds?: number;
            since?: components["schemas"]["InputTime"] | null;
            /**
             * Format: uri
             * @description For GitHub Enterprise Server: https://HOST/api/v3. Default: that of the provider.
             * @example https://github.example.com/api/v3
             */
            api_url?: string;
        };
        /** @description Reconciliation is how an endpoint is reconciled with its provider. */
        Reconciliation: {
            /** @constant */
            object: "reconciliation";
            endpoint_id: string;
            provider: string;
            /** @description When the last look ended. */
            at: components["schemas"]["Time"] | null;
            /** @description When the next one begins. */
            next_at: components["schemas"]["Time"] | null;
            /** @description How far back the last look went. */
            since: components["schemas"]["Time"] | null;
            last: components["schemas"]["ReconcileCounts"];
            /** @description The sums since the node began to look, at a restart or a change of the endpoint. */
            total: components["schemas"]["ReconcileCounts"];
            /** @description Why the last look failed, in words that name what a person can change. */
            error: string | null;
            /** @description Looks that failed in a row. */
            failed_in_a_row: number;
        };
        /** @description Recovery is a job that delivers failed deliveries again. Its five counters always add up to `total`. */
        Recovery: {
            id: components["schemas"]["RecoveryId"];
            /** @constant */
            object: "recovery";
            endpoint_id: components["schemas"]["EndpointId"];
            destination_id: string | null;
            since: components["schemas"]["Time"];
            /** @description When the job was created; later events are not selected. */
            until: components["schemas"]["Time"];
            rate_per_second: number;
            state: components["schemas"]["RecoveryState"];
            /** @description Number of deliveries. Always the sum of the next five counters. */
            total: number;
            pending: number;
            /** @description Submitted for delivery and without a result yet. */
            queued: number;
            delivered: number;
            failed: number;
            skipped: number;
            /** @description The first deliveries, or the next ones if all of those were skipped. `delivered` and `failed` are results; the others were skipped or have none yet. */
            canary: components["schemas"]["Canary"];
            by_destination: components["schemas"]["RecoveryDestination"][];
            /** @description Estimated time to the end of the job. */
            eta_seconds: number | null;
            stop_reason: string | null;
            created_at: components["schemas"]["Time"];
            started_at: components["schemas"]["Time"] | null;
            finished_at: components["schemas"]["Time"] | null;
            /** @description 24 hours after `created_at`. Deliveries not sent by then are skipped. */
            deadline_at: components["schemas"]["Time"];
            created_by: components["schemas"]["KeyId"];
            warnings?: components["schemas"]["Warnings"];
        };
        /** @description RecoveryDestination counts the deliveries of a job to one destination. */
        RecoveryDestination: {
            id: string;
            total: number;
            failed: number;
            /** @description The most frequent error code of its failed deliveries. */
            top_error: string | null;
        };
        /** @description RecoveryItem is one delivery of a recovery job. */
        RecoveryItem: {
            id: string;
            recovery_id: components["schemas"]["RecoveryId"];
            event_id: components["schemas"]["EventId"];
            /** @description Type of the event; `null` if it has none. */
            event_type: string | null;
            destination_id: string;
            delivery_id: components["schemas"]["DeliveryId"];
            state: components["schemas"]["RecoveryItemState"];
            skipped_reason: string | null;
            canary: boolean;
            /** @description Number of HTTP attempts within the job, at most three: the second after 2 seconds, the third after 10 more. The endpoint's retry policy does not apply to deliveries of a job. */
            attempts: number;
            last_response_status: number | null;
            last_error_code: string | null;
            updated_at: components["schemas"]["Time"];
        };
        RecoveryItemList: {
            data: components["schemas"]["RecoveryItem"][];
            next_cursor?: components["schemas"]["NextCursor"];
        };
        RecoveryList: {
            data: components["schemas"]["Recovery"][];
            next_cursor?: components["schemas"]["NextCursor"];
        };
        /** @description ReplayRun is one replay of the events of a selection. */
        ReplayRun: {
            run_id: components["schemas"]["RunId"];
            /** @constant */
            object: "replay_run";
            filter: components["schemas"]["ReplayRunFilter"];
            since: components["schemas"]["Time"];
            until: components["schemas"]["Time"];
            state: components["schemas"]["ReplayRunState"];
            /** @description Whether every delivery that was queued is delivered, failed or skipped. */
            ended: boolean;
            /** @description Events selected. */
            events: number;
            /** @description Deliveries queued so far. */
            queued: number;
            delivered: number;
            failed: number;
            skipped: number;
            created_at: components["schemas"]["Time"];
            /** @description An API key or a person. `null`: an earlier version created it. */
            created_by: string | null;
        };
        ReplayRunList: {
            data: components["schemas"]["ReplayRun"][];
            next_cursor?: components["schemas"]["NextCursor"];
        };
        Response: {
            /** @description Default 200. */
            status: number;
            /** @description Default application/json. */
            content_type: string;
            body: string;
        };
        ResponseInput: {
            /** @description Default 200. */
            status?: number;
            /**
             * @description Default application/json.
             * @enum {string}
             */
            content_type?: "application/json" | "text/plain" | "text/xml" | "application/xml";
            body?: string;
        };
        RetryPolicy: {
            /** @description Default schedule. */
            strategy: string;
            /** @description Delays between attempts in seconds. The last one repeats. For schedule. */
            schedule_seconds?: number[];
            /** @description First delay in seconds. For exponential. Default 5. */
            initial_seconds?: number;
            /** @description Growth of the delay. For exponential. Default 2. */
            multiplier?: number;
            /** @description Longest delay in seconds. For exponential. Default 43200. */
            max_seconds?: number;
            /** @description Delay in seconds. For linear, required. */
            interval_seconds?: number;
            /** @description Attempts in total, including the first one. Default `10`. */
            max_attempts: number;
            /** @description Random share by which a delay varies; 0.1 is up to 10 %. Default `0.1`. */
            jitter: number;
            /** @description Whether Retry-After of a response delays the retry. Default `true`. */
            respect_retry_after: boolean;
            /** @description Longest Retry-After that is followed, in seconds. Default `86400`. */
            max_retry_after_seconds: number;
            /** @description Further statuses to retry: 3xx, 4xx or a status such as 404. Network errors, timeouts, 408, 409, 425, 429 and 5xx are always retried. */
            retry_on: string[];
        };
        RetryPolicyInput: {
            /**
             * @description Default schedule.
             * @enum {string}
             */
            strategy?: "schedule" | "exponential" | "linear" | "none";
            /** @description Delays between attempts in seconds. The last one repeats. For schedule. */
            schedule_seconds?: number[];
            /** @description First delay in seconds. For exponential. Default 5. */
            initial_seconds?: number;
            /** @description Growth of the delay. For exponential. Default 2. */
            multiplier?: number;
            /** @description Longest delay in seconds. For exponential. Default 43200. */
            max_seconds?: number;
            /** @description Delay in seconds. For linear, required. */
            interval_seconds?: number;
            /** @description Attempts in total, including the first one. Default `10`. */
            max_attempts?: number;
            /** @description Random share by which a delay varies; 0.1 is up to 10 %. Default `0.1`. */
            jitter?: number;
            /** @description Whether Retry-After of a response delays the retry. Default `true`. */
            respect_retry_after?: boolean;
            /** @description Longest Retry-After that is followed, in seconds. Default `86400`. */
            max_retry_after_seconds?: number;
            /** @description Further statuses to retry: 3xx, 4xx or a status such as 404. Network errors, timeouts, 408, 409, 425, 429 and 5xx are always retried. */
            retry_on?: string[];
        };
        S3: {
            /**
             * @description The bucket, which must exist. Required.
             * @example events
             */
            bucket: string;
            /**
             * @description The region of the bucket. Required.
             * @example eu-central-1
             */
            region: string;
            /**
             * @description https URL of the store, without a path. Default: Amazon S3 in that region.
             * @example https://s3.example.com
             */
            endpoint?: string;
            /**
             * @description Requests are signed with it (SigV4). It needs the right s3:PutObject. Required.
             * @example AKIDEXAMPLE
             */
            access_key_id: string;
            /**
             * @description Required. Masked in responses; its mask means unchanged.
             * @example ****4f2a
             */
            secret_access_key: string;
            /**
             * @description Template of the names, with the placeholders {date}, {hour}, {endpoint_id} and {id}, which it must have. Default {date}/{hour}/{id}.ndjson.
             * @example orders-{date}-{id}.ndjson
             */
            key: string;
            /** @description How long events gather in an object, in seconds. Default 2. */
            flush_seconds: number;
            /** @description An object is stored earlier when it has this size. Default 4194304. */
            flush_bytes: number;
        };
        S3Input: {
            /**
             * @description The bucket, which must exist. Required.
             * @example events
             */
            bucket?: string;
            /**
             * @description The region of the bucket. Required.
             * @example eu-central-1
             */
            region?: string;
            /**
             * @description https URL of the store, without a path. Default: Amazon S3 in that region.
             * @example https://s3.example.com
             */
            endpoint?: string | null;
            /**
             * @description Requests are signed with it (SigV4). It needs the right s3:PutObject. Required.
             * @example AKIDEXAMPLE
             */
            access_key_id?: string;
            /**
             * @description Required. Masked in responses; its mask means unchanged.
             * @example ****4f2a
             */
            secret_access_key?: string;
            /**
             * @description Template of the names, with the placeholders {date}, {hour}, {endpoint_id} and {id}, which it must have. Default {date}/{hour}/{id}.ndjson.
             * @example orders-{date}-{id}.ndjson
             */
            key?: string;
            /** @description How long events gather in an object, in seconds. Default 2. */
            flush_seconds?: number;
            /** @description An object is stored earlier when it has this size. Default 4194304. */
            flush_bytes?: number;
        };
        SQS: {
            /**
             * @description https URL of the queue, which must exist. Required.
             * @example https://sqs.eu-central-1.amazonaws.com/123456789012/orders
             */
            queue_url: string;
            /**
             * @description The region of the queue. Default: that of queue_url.
             * @example eu-central-1
             */
            region?: string;
            /**
             * @description Requests are signed with it (SigV4). It needs the right sqs:SendMessage. Required.
             * @example AKIDEXAMPLE
             */
            access_key_id: string;
            /**
             * @description Required. Masked in responses; its mask means unchanged.
             * @example ****4f2a
             */
            secret_access_key: string;
            /**
             * @description Group of the messages, whose order a FIFO queue keeps: event_id, endpoint_id, type, none, or a value of the event as body:$.data.id or header:X-Shop. Default none, of a FIFO queue endpoint_id.
             * @example body:$.data.id
             */
            group: string;
        };
        SQSInput: {
            /**
             * @description https URL of the queue, which must exist. Required.
             * @example https://sqs.eu-central-1.amazonaws.com/123456789012/orders
             */
            queue_url?: string;
            /**
             * @description The region of the queue. Default: that of queue_url.
             * @example eu-central-1
             */
            region?: string | null;
            /**
             * @description Requests are signed with it (SigV4). It needs the right sqs:SendMessage. Required.
             * @example AKIDEXAMPLE
             */
            access_key_id?: string;
            /**
             * @description Required. Masked in responses; its mask means unchanged.
             * @example ****4f2a
             */
            secret_access_key?: string;
            /**
             * @description Group of the messages, whose order a FIFO queue keeps: event_id, endpoint_id, type, none, or a value of the event as body:$.data.id or header:X-Shop. Default none, of a FIFO queue endpoint_id.
             * @example body:$.data.id
             */
            group?: string;
        };
        /** @description Scan is one search of a website for leaked keys and exposed files. */
        Scan: {
            id: components["schemas"]["ScanId"];
            /** @constant */
            object: "scan";
            domain_id: components["schemas"]["DomainId"];
            hostname: string;
            status: string;
            trigger: string;
            /** @description At most 50. */
            pages: number;
            /** @description Other requests: scripts, source maps and probes. At most 300. */
            resources: number;
            /** @description After decompression. */
            bytes: number;
            /** @description Findings that were not known before. */
            findings_new: number;
            /** @description Findings that were known and are still there. */
            findings_seen: number;
            /** @description Paths that were skipped. `tripwire`: your own tripwire was found where you placed it. */
            skipped: components["schemas"]["ScanSkipped"][];
            /** @description How many more were skipped. */
            skipped_more: number;
            /** @description Other hosts whose scripts the pages load. They were not looked at. */
            third_party: string[];
            /** @description The website answers 200 to paths that it does not have. */
            catch_all: boolean;
            /** @description The first budget that ended. */
            budget_exhausted: string | null;
            /** @description Why the scan failed. */
            error: string | null;
            /** @description `null` for weekly scans. */
            created_by: string | null;
            created_at: components["schemas"]["Time"];
            started_at: components["schemas"]["Time"] | null;
            finished_at: components["schemas"]["Time"] | null;
            warnings?: components["schemas"]["Warnings"];
        };
        /** @description Scan is one search of a website for leaked keys and exposed files. */
        ScanInput: {
            domain_id: components["schemas"]["DomainId"];
        };
        ScanList: {
            data: components["schemas"]["Scan"][];
            next_cursor?: components["schemas"]["NextCursor"];
        };
        /** @description ScanSkipped is something that a scan has not looked at. */
        ScanSkipped: {
            path: string;
            reason: string;
        };
        /** @description SecretResult compares a signature with one of the secrets. */
        SecretResult: {
            last4: string | null;
            /** @description The first 8 characters of the signature that the secret makes. */
            expected_prefix: string | null;
            matches: boolean;
        };
        /** @description SignatureExplanation compares the signature of an event with the one that the secrets make. */
        SignatureExplanation: {
            /** @constant */
            object: "signature";
            event_id: components["schemas"]["EventId"];
            scheme: string;
            /** @description What the endpoint's current verification makes of the request. */
            verdict: string;
            reason: string | null;
            /** @description The headers that the verification reads, with their values as received. */
            headers: components["schemas"]["Header"][];
            /** @description The address that Twilio is assumed to have called, which its signature covers. It is tried with and without the port; `signed_content` begins with the spelling that was signed, otherwise with this one. Its token is masked for read-only and agent keys. `null` for other schemes. */
            url: string | null;
            /** @description The signed bytes, up to 64 KiB. `null` if a part of them is missing from the request. */
            signed_content: string | null;
            signed_content_encoding: components["schemas"]["BodyEncoding"];
            signed_content_truncated: boolean;
            /** @description A token of an ingest URL in it is masked. */
            signed_content_masked: boolean;
            signed_size_bytes: number | null;
            /** @description The signed time as received. */
            timestamp: string | null;
            signed_at: components["schemas"]["Time"] | null;
            /** @description Seconds from the signed time to the time of receipt, negative for a time in the future. */
            age_seconds: number | null;
            /** @description `null` if the scheme signs no time. */
            tolerance_seconds: number | null;
            /** @description The first 8 characters of the first signature in the request. */
            received_prefix: string | null;
            secrets: components["schemas"]["SecretResult"][];
            /** @description Probable causes. Empty if the signature is accepted and the event was not rejected. */
            findings: components["schemas"]["SignatureFinding"][];
        };
        /** @description SignatureFinding is something that the explanation of a signature has noticed. */
        SignatureFinding: {
            code: string;
            /** @description What is probably wrong and what to change, in one sentence. */
            message: string;
        };
        SigningScheme: {
            /** @description standard_webhooks: webhook-id, webhook-timestamp and webhook-signature (Standard Webhooks 1.0.0). svix: svix-id, svix-timestamp and svix-signature beside these. template: an HMAC in a header of your choice. Required. */
            type: string;
            /**
             * @description For template: the header with the signature. Required there.
             * @example Stripe-Signature
             */
            header?: string;
            /** @description For template: the hash of the HMAC. Default sha256. */
            algorithm?: string;
            /** @description For template: how the signature is written. Default hex. */
            encoding?: string;
            /**
             * @description For template: what is signed, with {body} once, and {id}, {timestamp} (Unix time in seconds) and {url}. Default {body}.
             * @example {timestamp}.{body}
             */
            signed_content?: string;
            /**
             * @description For template: with {signature} or {signatures} once, and {id} and {timestamp}. {signature}: during the overlap of a rotation the part between commas is repeated for the older secret; without a comma only the newest secret signs. {signatures}: those of both secrets with a comma between them. Default {signature}.
             * @example t={timestamp},v1={signature}
             */
            value?: string;
            /**
             * @description For template: the bytes of the text are the key, which rotate_secret does not change. Default: the text of the destination's secret, whsec_ included. Masked in responses; its mask means unchanged.
             * @example ****4f2a
             */
            secret?: string;
        };
        SigningSchemeInput: {
            /**
             * @description standard_webhooks: webhook-id, webhook-timestamp and webhook-signature (Standard Webhooks 1.0.0). svix: svix-id, svix-timestamp and svix-signature beside these. template: an HMAC in a header of your choice. Required.
             * @enum {string}
             */
            type?: "standard_webhooks" | "svix" | "template";
            /**
             * @description For template: the header with the signature. Required there.
             * @example Stripe-Signature
             */
            header?: string | null;
            /**
             * @description For template: the hash of the HMAC. Default sha256.
             * @enum {string|null}
             */
            algorithm?: "sha256" | "sha1" | "sha512" | null;
            /**
             * @description For template: how the signature is written. Default hex.
             * @enum {string|null}
             */
            encoding?: "hex" | "base64" | null;
            /**
             * @description For template: what is signed, with {body} once, and {id}, {timestamp} (Unix time in seconds) and {url}. Default {body}.
             * @example {timestamp}.{body}
             */
            signed_content?: string | null;
            /**
             * @description For template: with {signature} or {signatures} once, and {id} and {timestamp}. {signature}: during the overlap of a rotation the part between commas is repeated for the older secret; without a comma only the newest secret signs. {signatures}: those of both secrets with a comma between them. Default {signature}.
             * @example t={timestamp},v1={signature}
             */
            value?: string | null;
            /**
             * @description For template: the bytes of the text are the key, which rotate_secret does not change. Default: the text of the destination's secret, whsec_ included. Masked in responses; its mask means unchanged.
             * @example ****4f2a
             */
            secret?: string | null;
        };
        /** @description Signing is how the deliveries to a destination are signed. */
        SigningType2: {
            /** @description `ed25519`: the receiver verifies with `public_key` and has no secret. */
            algorithm: string;
            /** @description `whpk_` and the base64 of the public key; `null` for `hmac-sha256`. */
            public_key: string | null;
            scheme: string;
            /** @description How deliveries are signed: by all of these at once. */
            schemes: components["schemas"]["SigningScheme"][];
            /** @description Only in the response that created it. Never for `ed25519`. */
            secret?: string;
            secret_last4: string;
        };
        Source: {
            /** @description A topic in your Kafka. Merged member by member. */
            kafka?: components["schemas"]["KafkaSource"];
        };
        SourceInput: {
            /** @description A topic in your Kafka. Merged member by member. */
            kafka?: components["schemas"]["KafkaSourceInput"] | null;
        };
        /** @description SourceStatus is how far the source of an endpoint is read. */
        SourceStatus: {
            /** @description Records that are not read yet. */
            lag: number;
            /** @description What is wrong, in words that name what a person can change. */
            error: string | null;
            at: components["schemas"]["Time"];
        };
        /** @description StatusCounts counts events by their status. */
        StatusCounts: {
            delivered: number;
            failed: number;
            retrying: number;
            pending: number;
            skipped: number;
            rejected: number;
        };
        /** @description StreamEvent is an event that was accepted. */
        StreamEvent: {
            id: components["schemas"]["EventId"];
            received_at: components["schemas"]["Time"];
            type: string | null;
            method: string;
            /** @description `/`, and the query of the request. */
            path: string;
            /** @description `[name, value]` as received, repeats kept. Bytes of a value that are not UTF-8 are U+FFFD here; `headers_base64` has them. */
            headers: components["schemas"]["HeaderPairs"];
            /** @description Present only if the value of a header is not UTF-8: for each pair, in its order, the value in base64, or `null`. */
            headers_base64?: components["schemas"]["HeadersBase64"];
            /** @description Empty when `truncated`. */
            body: components["schemas"]["StreamBody"];
            /** @description Of the body. */
            size: number;
            /** @description The body is larger than 1 MiB. */
            truncated: boolean;
        };
        /** @description StreamGap says that events are missing. */
        StreamGap: {
            /** @description Since when. */
            from: components["schemas"]["Time"];
            /** @description `retention`: they are older than events are kept. `log`: the log was made anew. */
            reason: string;
        };
        /** @description Tenant is a customer of yours. Endpoints with its name, and keys that are restricted to it, belong to it. */
        Tenant: {
            /** @constant */
            object: "tenant";
            /** @description Your name for it, such as the id of the customer in your database. */
            tenant: components["schemas"]["TenantName"];
            /** @description Printable characters, for people. Default: empty. */
            name: string;
            metadata: {
                [key: string]: string;
            };
            /** @description What the tenant may use at most. Above a limit the answer is 429 and names it. */
            limits: components["schemas"]["TenantLimits"];
            /** @description Agreed events of all its endpoints a month, for its usage. Events above it are accepted. `null`: none. */
            allowance_events: number | null;
            /** @description How its portal looks. `null`: the defaults. */
            portal: components["schemas"]["TenantPortal"] | null;
            /** @description The endpoint that events sent to the tenant go to; `null` before the first one. */
            endpoint_id: string | null;
            /** @description Number of its endpoints. */
            endpoints: number;
            created_at: components["schemas"]["Time"];
            updated_at: components["schemas"]["Time"];
            warnings?: components["schemas"]["Warnings"];
        };
        /** @description Tenant is a customer of yours. Endpoints with its name, and keys that are restricted to it, belong to it. */
        TenantInput: {
            /** @description Printable characters, for people. Default: empty. */
            name?: string;
            metadata?: components["schemas"]["MetadataInput"];
            /** @description What the tenant may use at most. Above a limit the answer is 429 and names it. */
            limits?: components["schemas"]["TenantLimitsInput"] | null;
            /** @description Agreed events of all its endpoints a month, for its usage. Events above it are accepted. `null`: none. */
            allowance_events?: number | null;
            /** @description How its portal looks. `null`: the defaults. */
            portal?: components["schemas"]["TenantPortalInput"] | null;
        };
        /** @description TenantKey is an API key of a tenant. It reaches the endpoints of the tenant, and nothing else of your account. */
        TenantKey: {
            id: components["schemas"]["KeyId"];
            /** @constant */
            object: "key";
            tenant: components["schemas"]["TenantName"];
            name: string;
            scope: string;
            /** @description `true`: for an agent, whose changes a person has to approve. Default `false`. */
            agent: boolean;
            /** @description The key. Only in the answer that creates it. */
            key?: string;
            last4: string;
            /** @description When the key ends; `null`: it does not. */
            expires_at: components["schemas"]["Time"] | null;
            revoked_at: components["schemas"]["Time"] | null;
            created_at: components["schemas"]["Time"];
        };
        /** @description TenantKey is an API key of a tenant. It reaches the endpoints of the tenant, and nothing else of your account. */
        TenantKeyInput: {
            name: string;
            /** @enum {string} */
            scope: "read" | "read_write";
            /** @description `true`: for an agent, whose changes a person has to approve. Default `false`. */
            agent?: boolean;
            /** @description When the key ends; `null`: it does not. */
            expires_at?: components["schemas"]["Time"] | null;
        };
        TenantKeyList: {
            data: components["schemas"]["TenantKey"][];
            next_cursor?: components["schemas"]["NextCursor"];
        };
        TenantLimits: {
            /** @description Endpoints at most; null: 100. */
            endpoints: number | null;
            /** @description Destinations of all its endpoints at most. */
            destinations: number | null;
            /** @description Accepted events of all its endpoints at most, over all nodes. */
            events_per_second: number | null;
        };
        TenantLimitsInput: {
            /** @description Endpoints at most; null: 100. */
            endpoints?: number | null;
            /** @description Destinations of all its endpoints at most. */
            destinations?: number | null;
            /** @description Accepted events of all its endpoints at most, over all nodes. */
            events_per_second?: number | null;
        };
        TenantList: {
            data: components["schemas"]["Tenant"][];
            next_cursor?: components["schemas"]["NextCursor"];
        };
        TenantPortal: {
            /** @description Name at the top of each page, such as that of your product. Default: Webhooks. */
            title: string;
            /** @description Colour of buttons, as #rrggbb, and of links and tabs, made darker or lighter where it would be hard to read. Default: that of the dashboard. */
            color: string;
            /** @description https address of a picture beside the title. Browsers of the tenant fetch it. Default: none. */
            logo_url: string;
            /** @description The same for dark pages. Default: logo_url. */
            logo_dark_url: string;
        };
        TenantPortalInput: {
            /** @description Name at the top of each page, such as that of your product. Default: Webhooks. */
            title?: string;
            /** @description Colour of buttons, as #rrggbb, and of links and tabs, made darker or lighter where it would be hard to read. Default: that of the dashboard. */
            color?: string;
            /** @description https address of a picture beside the title. Browsers of the tenant fetch it. Default: none. */
            logo_url?: string;
            /** @description The same for dark pages. Default: logo_url. */
            logo_dark_url?: string;
        };
        /** @description TransformFailure says which operation of a transformation failed, and where. */
        TransformFailure: {
            /** @description The version of the transformation. */
            transformation_version: number;
            /** @description The operation that failed; `null`: the sample or the result is at fault. */
            index: number | null;
            /** @description JSON Pointer to the place; empty for the whole document. */
            pointer: string;
            message: string;
        };
        /** @description Transformation has the operations that make the bodies of deliveries. */
        Transformation: {
            ops: components["schemas"]["TransformationOps"];
        };
        /** @description TransformationPreview is what operations make of a sample. */
        TransformationPreview: {
            ok: boolean;
            /** @description The result; `null` if the operations fail, or if it has a number that JSON parsers cannot read, such as 1e400. */
            output: unknown;
            /** @description The bytes that a destination would get. They keep numbers that your JSON parser may change. */
            output_text: string | null;
            /** @description Headers that operations set. */
            headers?: {
                [key: string]: string;
            };
            /** @description What an operation appends to the path of the URL, escaped. */
            path?: string;
            method?: string;
            /** @description Nothing would be sent: the delivery would end `skipped`, `cancelled_by_rule`. */
            cancelled?: boolean;
            /** @description What each operation did, up to one that failed. */
            steps: components["schemas"]["TransformationStep"][];
            error?: components["schemas"]["Failure"];
            bytes_in: number;
            bytes_out: number;
            /** @description How many credentials in the body of an event were masked before. */
            masked: number;
            warnings?: components["schemas"]["Warnings"];
        };
        /** @description TransformationStep is what one operation did. */
        TransformationStep: {
            index: number;
            op: string;
            changed: components["schemas"]["Change"][];
            changed_total: number;
            /** @description What the event does not have. */
            warnings: string[];
        };
        /** @description TransformationVersion says when and by whom a version was made. */
        TransformationVersion: {
            version: number;
            created_at: components["schemas"]["Time"];
            created_by: components["schemas"]["AuditActor"];
            /** @description How many it has; 0 ended the transformation. */
            operations: number;
            /** @description `true`: the destination has that of the endpoint again. */
            inherits?: boolean;
        };
        /** @description Tripwire is a honeytoken: a fake key, URL or file. Counts are null while the event store is unavailable. */
        Tripwire: {
            id: components["schemas"]["TripwireId"];
            /** @constant */
            object: "tripwire";
            domain_id: components["schemas"]["DomainId"];
            /** @description `key` is an API key, `url` an ingest URL, `file` a file that has one of each. */
            kind: string;
            /** @description Which file, if `kind` is `file`. Default `/.env`. */
            path: string | null;
            /** @description Printable. Default is the end of the id. */
            label: string;
            /** @description Where you put it. If it names a path of the website, leak scans ignore the tripwire there and report it elsewhere. */
            placement: string;
            /** @description `tripped`: the present secrets were used, or seen in logs, reports, events or a scan. */
            status: string;
            token_masked: string;
            /** @description The API key, or the token of the URL. Only in the answers that create and rotate the tripwire; `null` in all others, as are `url` and `file`. */
            token: string | null;
            /** @description The ingest URL, of `url` and `file`. */
            url: string | null;
            file: components["schemas"]["TripwireFile"] | null;
            /** @description Texts to plant. Empty whenever `token` is `null`, and for a file. */
            snippets: components["schemas"]["TripwireSnippet"][];
            /** @description When the present secrets were made. */
            issued_at: components["schemas"]["Time"];
            last_tripped_at: components["schemas"]["Time"] | null;
            /** @description Uses and sightings, of former secrets too, without tests. After 100 uses in a day, those in one minute count once. `null` while the store does not answer. */
            trip_count: number | null;
            /** @description Until when the next use from the address that asked for it is a test. */
            test_until: components["schemas"]["Time"] | null;
            /** @description Its occurrences are the hits. `null` before the first one. */
            finding_id: string | null;
            /** @description The same, of tests. */
            test_finding_id: string | null;
            created_by: string;
            created_at: components["schemas"]["Time"];
            updated_at: components["schemas"]["Time"];
            warnings?: components["schemas"]["Warnings"];
        };
        /** @description TripwireFile is a file with the secrets of a tripwire, to serve at Path. */
        TripwireFile: {
            path: string;
            /** @description The whole file. Serve it at the path. */
            content: string;
        };
        /** @description Tripwire is a honeytoken: a fake key, URL or file. Counts are null while the event store is unavailable. */
        TripwireInput: {
            domain_id: components["schemas"]["DomainId"];
            /**
             * @description `key` is an API key, `url` an ingest URL, `file` a file that has one of each.
             * @enum {string}
             */
            kind: "key" | "url" | "file";
            /**
             * @description Which file, if `kind` is `file`. Default `/.env`.
             * @enum {string}
             */
            path?: "/.env" | "/.git/config" | "/credentials.json";
            /** @description Printable. Default is the end of the id. */
            label?: string;
            /** @description Where you put it. If it names a path of the website, leak scans ignore the tripwire there and report it elsewhere. */
            placement?: string;
        };
        TripwireList: {
            data: components["schemas"]["Tripwire"][];
            next_cursor?: components["schemas"]["NextCursor"];
        };
        /** @description TripwireSnippet is a text with a secret of a tripwire that can be planted. */
        TripwireSnippet: {
            name: string;
            text: string;
        };
        /** @description TryMatch is one secret in the text. */
        TryMatch: {
            rule: string;
            name: string;
            /** @description In a log line. */
            severity: string;
            masked: string;
            /** @description From 1 on. */
            line: number;
        };
        /** @description Usage is what the account has used in a month. Deliveries and attempts are counted at least once. */
        Usage: {
            period_start: components["schemas"]["Time"];
            period_end: components["schemas"]["Time"];
            /** @description Everything that was acknowledged before this time is counted. */
            as_of: components["schemas"]["Time"];
            events: components["schemas"]["UsedEvents"];
            /** @description Successful requests to destinations. After a failure some may be counted twice, unlike events. */
            deliveries: number;
            /** @description All requests to destinations, counted like deliveries. */
            attempts: number;
            /** @description Bytes of the bodies of the events. */
            bytes: number;
            /** @description Agreed events per month, as of now; `null` if there is none. */
            allowance: number | null;
            remaining: number | null;
            overage: components["schemas"]["Overage"];
            /** @description Expected usage at the end of the period. */
            projection: components["schemas"]["Projection"];
            /** @description The 20 endpoints with the most events, largest first. */
            by_endpoint: components["schemas"]["EndpointUsage"][];
            /** @description Every day of the period up to now, oldest first. The days add up to `events`. */
            daily: components["schemas"]["UsageDay"][];
        };
        /** @description UsageDay is the usage of a day. */
        UsageDay: {
            /** Format: date */
            date: string;
            /** @description Events from providers. */
            received: number;
            /** @description Events sent through the API. */
            sent: number;
            /** @description Findings of the leak scan. */
            findings: number;
            total: number;
            bytes: number;
        };
        /** @description UsageDays is what the account has used on each day. */
        UsageDays: {
            /** @constant */
            object: "usage_days";
            from: components["schemas"]["Time"];
            /** @description The end of today in UTC. */
            to: components["schemas"]["Time"];
            /** @description Everything that was acknowledged before this time is counted. */
            as_of: components["schemas"]["Time"];
            /** @description Every day, oldest first. */
            daily: components["schemas"]["UsageDay"][];
            /** @description The 20 endpoints with the most events in these days, largest first. */
            by_endpoint: components["schemas"]["EndpointDays"][];
        };
        /** @description UsedEvents counts accepted events and findings. Retries, replays, duplicates, rejected events and test events do not count. */
        UsedEvents: {
            /** @description Events from providers. */
            received: number;
            /** @description Events sent through the API. */
            sent: number;
            /** @description Findings of the leak scan. */
            findings: number;
            total: number;
        };
        /** @description Validation is the response to a body that the request for the change would accept. It does not say whether that would change anything: callers could guess secrets without leaving an audit entry. */
        Validation: {
            /**
             * @description "validation".
             * @constant
             */
            object: "validation";
            warnings?: components["schemas"]["Warnings"];
        };
        /** @description Verification is how the provider signs its requests. `null`: signatures are not verified. */
        Verification: {
            /** @description The same as `provider`. */
            type: string;
            /** @description `enforce`: events without a valid signature are stored as `rejected` and not delivered. `observe`: they are delivered and marked in `relay-verification`. Default `enforce`. */
            mode: string;
            /** @description Maximum difference between the signed time and the time of receipt, in seconds. For types that sign a timestamp (such as stripe, slack, standard_webhooks, hmac with `{timestamp}`). Default `300`. */
            tolerance_seconds: number;
            secret_set: boolean;
            secret_last4: string;
            /** @description Header that carries the signature. For `hmac` only; default `X-Signature`. */
            header?: string;
            /** @description Hash of the HMAC. For `hmac` only; default `sha256`. */
            algorithm?: string;
            /** @description Encoding of the signature. For `hmac` only; default `hex`. */
            encoding?: string;
            /** @description Text before the signature in the header, such as `sha256=`. For `hmac` only; default none. */
            prefix?: string;
            /**
             * @description Template of the signed text, with the placeholders `{timestamp}` and `{body}`. For `hmac` only; default `{body}`.
             * @example {timestamp}.{body}
             */
            signed_content?: string;
        };
        /** @description Verification is how the provider signs its requests. `null`: signatures are not verified. */
        VerificationInput: {
            /**
             * @description The same as `provider`.
             * @enum {string}
             */
            type?: "stripe" | "github" | "shopify" | "slack" | "twilio" | "standard_webhooks" | "hmac" | "adyen" | "airwallex" | "bitbucket" | "cal_com" | "calendly" | "chargebee" | "clerk" | "coinbase_commerce" | "discord" | "docusign" | "figma" | "gitlab" | "hubspot" | "intercom" | "jira" | "line" | "linear" | "liveblocks" | "mailgun" | "meta" | "mux" | "notion" | "openai" | "paddle" | "pagerduty" | "paypal" | "postmark" | "razorpay" | "replicate" | "resend" | "sendgrid" | "sentry" | "sns" | "square" | "supabase" | "svix" | "telnyx" | "twitch" | "typeform" | "vercel" | "woocommerce" | "workos" | "xero" | "zendesk" | "zoom";
            /**
             * @description `enforce`: events without a valid signature are stored as `rejected` and not delivered. `observe`: they are delivered and marked in `relay-verification`. Default `enforce`.
             * @enum {string}
             */
            mode?: "enforce" | "observe";
            /** @description Maximum difference between the signed time and the time of receipt, in seconds. For types that sign a timestamp (such as stripe, slack, standard_webhooks, hmac with `{timestamp}`). Default `300`. */
            tolerance_seconds?: number;
            /** @description The provider's signing secret. For some types it is the provider's public key, `user:password`, the ARN of the topic or the id of the webhook. Write-only: responses show `secret_last4`. Its mask means unchanged. */
            secret?: string;
            /** @description Up to three secrets, instead of `secret`: a signature is valid if one of them matches. */
            secrets?: string[];
            /** @description Header that carries the signature. For `hmac` only; default `X-Signature`. */
            header?: string;
            /**
             * @description Hash of the HMAC. For `hmac` only; default `sha256`.
             * @enum {string}
             */
            algorithm?: "sha256" | "sha1" | "sha512";
            /**
             * @description Encoding of the signature. For `hmac` only; default `hex`.
             * @enum {string}
             */
            encoding?: "hex" | "base64";
            /** @description Text before the signature in the header, such as `sha256=`. For `hmac` only; default none. */
            prefix?: string;
            /**
             * @description Template of the signed text, with the placeholders `{timestamp}` and `{body}`. For `hmac` only; default `{body}`.
             * @example {timestamp}.{body}
             */
            signed_content?: string;
        };
        /** @description WaitingDestination is a destination whose deliveries wait, or that the service has disabled. */
        WaitingDestination: {
            endpoint_id: string;
            endpoint_name: string;
            destination_id: string;
            destination_name: string | null;
            host: string;
            state: string;
            state_reason: string | null;
            /** @description When the next probe is sent to a `held` destination; else `null`. */
            until: components["schemas"]["Time"] | null;
        };
        WaitingDestinationCounted: {
            total: number;
            data: components["schemas"]["WaitingDestination"][];
        };
        /** @description WaitingEvents are the newest events with an open delivery. */
        WaitingEvents: {
            data: components["schemas"]["EventRow"][];
            more: boolean;
        };
        /** @description WaitingRecovery is a recovery job that waits for approval. */
        WaitingRecovery: {
            id: string;
            endpoint_id: string;
            /** @description `null`: the endpoint was deleted. */
            endpoint_name: string | null;
            destination_id: string | null;
            total: number;
            canary: components["schemas"]["Canary"];
            deadline_at: components["schemas"]["Time"];
            created_by: string;
        };
        WaitingRecoveryCounted: {
            total: number;
            data: components["schemas"]["WaitingRecovery"][];
        };
        /** @description Warning says that a member of the request was ignored, or that a setting will not work as it is. */
        Warning: {
            /** @description The member, as a dotted path with indexes. */
            param: string;
            /** @description What is wrong with it. */
            message: string;
        };
        /** @description Why explains a status. Its sentence is [Why.Text]. */
        Why: {
            /**
             * @description The reason, or what halts an open delivery: `endpoint_deleted`, `destination_deleted`, `destination_disabled`, `purged`, `endpoint_paused`, `destination_paused` or `payload_erased`. The status, if there is neither.
             * @example retrying
             */
            code: string;
            /** @description When something happens next: an attempt, a probe of the circuit breaker, or, for `payload_erased`, the end of the delivery. `null` if nothing is planned. */
            until: components["schemas"]["Time"] | null;
            /**
             * @description What happened last, such as `attempt 2 failed (HTTP 503)`, or for which event it waits, such as `behind evt_06e9…`; `null` if it is not known.
             * @example attempt 2 failed (HTTP 503)
             */
            cause: string | null;
        };
    };
    responses: {
        /** @description The request is invalid, or the current state does not allow it. `error.param` names the parameter. */
        BadRequest: {
            headers: {
                "X-Request-Id": components["headers"]["X-Request-Id"];
                "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                "Idempotent-Replayed": components["headers"]["Idempotent-Replayed"];
                "Idempotency-Status": components["headers"]["Idempotency-Status"];
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["Error"];
            };
        };
        /** @description There is no API key, or it is unknown, expired or revoked. */
        Unauthorized: {
            headers: {
                "X-Request-Id": components["headers"]["X-Request-Id"];
                "WWW-Authenticate": components["headers"]["WWW-Authenticate"];
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["Error"];
            };
        };
        /** @description The API key may only read, or it is an agent key. */
        Forbidden: {
            headers: {
                "X-Request-Id": components["headers"]["X-Request-Id"];
                "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["Error"];
            };
        };
        /** @description Nothing exists with this id, or its retention has ended. A wrong method of a known path gets 404 too, with `Allow`. */
        NotFound: {
            headers: {
                "X-Request-Id": components["headers"]["X-Request-Id"];
                "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                Allow: components["headers"]["Allow"];
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["Error"];
            };
        };
        /** @description A limit is reached: the requests per second of the key, the `ingest_limit` of the endpoint, or another limit that `error.message` names. Or a call with this `Idempotency-Key` is still running. Wait for the seconds in `Retry-After`. */
        TooManyRequests: {
            headers: {
                "X-Request-Id": components["headers"]["X-Request-Id"];
                "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                "Retry-After": components["headers"]["Retry-After"];
                "Idempotency-Status": components["headers"]["Idempotency-Status"];
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["Error"];
            };
        };
        /** @description The service failed. A write may have taken effect; check before you repeat it. */
        InternalError: {
            headers: {
                "X-Request-Id": components["headers"]["X-Request-Id"];
                "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                "Idempotent-Replayed": components["headers"]["Idempotent-Replayed"];
                "Idempotency-Status": components["headers"]["Idempotency-Status"];
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["Error"];
            };
        };
        /** @description A part of the service is temporarily unavailable; retry after the seconds in `Retry-After`. If the message says so, a write may have taken effect. */
        Unavailable: {
            headers: {
                "X-Request-Id": components["headers"]["X-Request-Id"];
                "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                "Retry-After": components["headers"]["Retry-After"];
                "Idempotent-Replayed": components["headers"]["Idempotent-Replayed"];
                "Idempotency-Status": components["headers"]["Idempotency-Status"];
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["Error"];
            };
        };
        /** @description The call took too long and was abandoned. A write may have taken effect; check before you repeat it. */
        Timeout: {
            headers: {
                "X-Request-Id": components["headers"]["X-Request-Id"];
                "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                "Idempotent-Replayed": components["headers"]["Idempotent-Replayed"];
                "Idempotency-Status": components["headers"]["Idempotency-Status"];
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["Error"];
            };
        };
    };
    parameters: {
        /** @description `id` of the last item that you have processed. */
        LastEventID: string;
        /** @description Maximum number of rows on a page. Values above 100 count as 100. */
        Limit: number;
        /** @description `next_cursor` of the previous page. Send the same filters with it. */
        Cursor: string;
        /**
         * @description Makes retries safe: a repeat of this call within 24 hours has no further effect. It gets the response of the
         *     first call, or for a sent event its current state, with `Idempotent-Replayed: true`. There are two
         *     exceptions: with another API key, secrets in the response are masked; and if the fixture that the first call
         *     made was deleted or has expired, or its event was erased, the repeat is answered with 404. 1 to 255 printable
         *     ASCII characters, valid for this path. With another body the key is refused (`idempotency_mismatch`).
         *
         *     In a cluster, keys of sent events are as durable as its Redis: when that starts empty, a repeat stores a second
         *     event. While Redis does not answer, a send with a key is answered 503 and stores nothing. A relay with its engines
         *     inside keeps them in a file. Keys of other calls are durable.
         */
        IdempotencyKey: string;
        /**
         * @description With `accept`, a send is stored even while its `Idempotency-Key` cannot be checked. A repeat may then store a second
         *     event, and the answer has `Idempotency-Status: unavailable`. Without this header such a send is answered 503.
         */
        IdempotencyUnavailable: "accept";
        /** @description `ETag` of an earlier response; 304 if it is still current. */
        IfNoneMatch: string;
        /** @description `ETag` of the endpoint as you read it. If somebody has changed it since, nothing is done, and the response is a `conflict`. */
        IfMatch: string;
    };
    requestBodies: never;
    headers: {
        /** @description Identifies this call in the service's logs. Include it when you report a problem. */
        "X-Request-Id": string;
        /** @description Requests of this kind (read, write or send) that the key may make per second. Absent without a limit. */
        "X-RateLimit-Limit": number;
        /** @description How many of them are left at this moment. */
        "X-RateLimit-Remaining": number;
        /** @description Seconds until the full number is available again. */
        "X-RateLimit-Reset": number;
        /** @description Seconds to wait before the next attempt. */
        "Retry-After": number;
        /** @description `true` if this is the response of an earlier call with the same `Idempotency-Key`. */
        "Idempotent-Replayed": "true";
        /** @description `unavailable` if the key could not be remembered: a repeat of this call may take effect again. */
        "Idempotency-Status": "unavailable";
        /** @description Time up to which the response is complete. Absent if it is complete up to now. */
        "Relay-Data-As-Of": components["schemas"]["Time"];
        /** @description Browsers save the response as a file. */
        "Content-Disposition": string;
        /** @description Tells proxies not to buffer the stream. */
        "X-Accel-Buffering": "no";
        /** @description The authentication scheme. */
        "WWW-Authenticate": "Bearer";
        /** @description The methods of this path. Present if the call used another method. */
        Allow: string;
        /** @description Version of the document. Send it as `If-None-Match` to download it only if it has changed. */
        ETag: string;
        /** @description Stands for this version of the endpoint's configuration. Send it as `If-Match` to change the endpoint only if nobody else has. */
        Revision: string;
    };
    pathItems: never;
}
export type $defs = Record<string, never>;
export interface operations {
    listEndpoints: {
        parameters: {
            query?: {
                /**
                 * @description Text to find, ignoring case, in the name, the description or a value of the metadata of an endpoint, or in the
                 *     name or the host and port of one of its destinations. The id of an endpoint, the id of one of its
                 *     destinations or its whole ingest URL finds the endpoint. Another URL finds the endpoints with a destination at
                 *     its host.
                 */
                q?: string;
                /** @description Endpoints of these tenants. */
                tenant?: components["schemas"]["FilterValues"];
                /** @description Maximum number of rows on a page. Values above 100 count as 100. */
                limit?: components["parameters"]["Limit"];
                /** @description `next_cursor` of the previous page. Send the same filters with it. */
                cursor?: components["parameters"]["Cursor"];
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A page of endpoints, newest first. */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["EndpointList"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["Unavailable"];
            504: components["responses"]["Timeout"];
        };
    };
    createEndpoint: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Makes retries safe: a repeat of this call within 24 hours has no further effect. It gets the response of the
                 *     first call, or for a sent event its current state, with `Idempotent-Replayed: true`. There are two
                 *     exceptions: with another API key, secrets in the response are masked; and if the fixture that the first call
                 *     made was deleted or has expired, or its event was erased, the repeat is answered with 404. 1 to 255 printable
                 *     ASCII characters, valid for this path. With another body the key is refused (`idempotency_mismatch`).
                 *
                 *     In a cluster, keys of sent events are as durable as its Redis: when that starts empty, a repeat stores a second
                 *     event. While Redis does not answer, a send with a key is answered 503 and stores nothing. A relay with its engines
                 *     inside keeps them in a file. Keys of other calls are durable.
                 */
                "Idempotency-Key"?: components["parameters"]["IdempotencyKey"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["EndpointCreate"];
            };
        };
        responses: {
            /** @description The new endpoint. */
            201: {
                headers: {
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    "Idempotent-Replayed": components["headers"]["Idempotent-Replayed"];
                    "Idempotency-Status": components["headers"]["Idempotency-Status"];
                    ETag: components["headers"]["Revision"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Endpoint"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["Unavailable"];
            504: components["responses"]["Timeout"];
        };
    };
    validateEndpoint: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["EndpointCreate"];
            };
        };
        responses: {
            /** @description The endpoint can be created. */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Validation"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["Unavailable"];
            504: components["responses"]["Timeout"];
        };
    };
    readEndpoint: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                endpoint_id: components["schemas"]["EndpointId"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The endpoint with its configuration. Secrets are masked. */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    ETag: components["headers"]["Revision"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Endpoint"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["Unavailable"];
            504: components["responses"]["Timeout"];
        };
    };
    deleteEndpoint: {
        parameters: {
            query?: never;
            header?: {
                /** @description `ETag` of the endpoint as you read it. If somebody has changed it since, nothing is done, and the response is a `conflict`. */
                "If-Match"?: components["parameters"]["IfMatch"];
            };
            path: {
                endpoint_id: components["schemas"]["EndpointId"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description It is deleted. */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Deleted"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["Unavailable"];
            504: components["responses"]["Timeout"];
        };
    };
    updateEndpoint: {
        parameters: {
            query?: never;
            header?: {
                /** @description `ETag` of the endpoint as you read it. If somebody has changed it since, nothing is done, and the response is a `conflict`. */
                "If-Match"?: components["parameters"]["IfMatch"];
            };
            path: {
                endpoint_id: components["schemas"]["EndpointId"];
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["EndpointUpdate"];
            };
        };
        responses: {
            /** @description The endpoint after the change. */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    ETag: components["headers"]["Revision"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Endpoint"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["Unavailable"];
            504: components["responses"]["Timeout"];
        };
    };
    validateEndpointChange: {
        parameters: {
            query?: never;
            header?: {
                /** @description `ETag` of the endpoint as you read it. If somebody has changed it since, nothing is done, and the response is a `conflict`. */
                "If-Match"?: components["parameters"]["IfMatch"];
            };
            path: {
                endpoint_id: components["schemas"]["EndpointId"];
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["EndpointUpdate"];
            };
        };
        responses: {
            /** @description The change can be made. */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Validation"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["Unavailable"];
            504: components["responses"]["Timeout"];
        };
    };
    previewTransformation: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                endpoint_id: components["schemas"]["EndpointId"];
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": {
                    /** @description Without `ops`, takes those that this destination has. */
                    destination_id?: string;
                    /** @description Default: the saved operations of the endpoint, or of the destination. */
                    ops?: {
                        ops?: unknown;
                    } & (null | components["schemas"]["Transformation"] | components["schemas"]["TransformationOps"]);
                    /** @description A JSON document, or the id of an event of the endpoint. */
                    sample?: unknown;
                    /** @description Instead of `sample`: the text of a body, as it would be received. It need not be JSON. */
                    sample_text?: string;
                } | unknown | unknown;
            };
        };
        responses: {
            /** @description What each operation did. */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["TransformationPreview"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["Unavailable"];
            504: components["responses"]["Timeout"];
        };
    };
    previewFilter: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                endpoint_id: components["schemas"]["EndpointId"];
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": {
                    /** @description As that of a destination. */
                    filter?: components["schemas"]["FilterInput"];
                    /** @description The filter changes that of this destination, as a PATCH would. */
                    destination_id?: string;
                };
            };
        };
        responses: {
            /** @description Which events pass. */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["FilterPreview"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["Unavailable"];
            504: components["responses"]["Timeout"];
        };
    };
    listTransformationVersions: {
        parameters: {
            query?: {
                /** @description That of this destination. */
                destination_id?: string;
            };
            header?: never;
            path: {
                endpoint_id: components["schemas"]["EndpointId"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The versions. */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["TransformationVersions"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["Unavailable"];
            504: components["responses"]["Timeout"];
        };
    };
    getReconciliation: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                endpoint_id: components["schemas"]["EndpointId"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The last look and the sums. */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Reconciliation"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["Unavailable"];
            504: components["responses"]["Timeout"];
        };
    };
    rotateToken: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Makes retries safe: a repeat of this call within 24 hours has no further effect. It gets the response of the
                 *     first call, or for a sent event its current state, with `Idempotent-Replayed: true`. There are two
                 *     exceptions: with another API key, secrets in the response are masked; and if the fixture that the first call
                 *     made was deleted or has expired, or its event was erased, the repeat is answered with 404. 1 to 255 printable
                 *     ASCII characters, valid for this path. With another body the key is refused (`idempotency_mismatch`).
                 *
                 *     In a cluster, keys of sent events are as durable as its Redis: when that starts empty, a repeat stores a second
                 *     event. While Redis does not answer, a send with a key is answered 503 and stores nothing. A relay with its engines
                 *     inside keeps them in a file. Keys of other calls are durable.
                 */
                "Idempotency-Key"?: components["parameters"]["IdempotencyKey"];
            };
            path: {
                endpoint_id: components["schemas"]["EndpointId"];
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": {
                    /** @description How long the previous URL also accepts events, in seconds. Default `86400`; 0 ends it at once. */
                    overlap_seconds?: number;
                };
            };
        };
        responses: {
            /** @description The endpoint with its new `ingest_url`. */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    "Idempotent-Replayed": components["headers"]["Idempotent-Replayed"];
                    "Idempotency-Status": components["headers"]["Idempotency-Status"];
                    ETag: components["headers"]["Revision"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Endpoint"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["Unavailable"];
            504: components["responses"]["Timeout"];
        };
    };
    testEndpoint: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Makes retries safe: a repeat of this call within 24 hours has no further effect. It gets the response of the
                 *     first call, or for a sent event its current state, with `Idempotent-Replayed: true`. There are two
                 *     exceptions: with another API key, secrets in the response are masked; and if the fixture that the first call
                 *     made was deleted or has expired, or its event was erased, the repeat is answered with 404. 1 to 255 printable
                 *     ASCII characters, valid for this path. With another body the key is refused (`idempotency_mismatch`).
                 *
                 *     In a cluster, keys of sent events are as durable as its Redis: when that starts empty, a repeat stores a second
                 *     event. While Redis does not answer, a send with a key is answered 503 and stores nothing. A relay with its engines
                 *     inside keeps them in a file. Keys of other calls are durable.
                 */
                "Idempotency-Key"?: components["parameters"]["IdempotencyKey"];
            };
            path: {
                endpoint_id: components["schemas"]["EndpointId"];
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["EventTest"];
            };
        };
        responses: {
            /** @description The event is stored durably and queued for delivery. */
            202: {
                headers: {
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    "Idempotent-Replayed": components["headers"]["Idempotent-Replayed"];
                    "Idempotency-Status": components["headers"]["Idempotency-Status"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SentEvent"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["Unavailable"];
            504: components["responses"]["Timeout"];
        };
    };
    listTenants: {
        parameters: {
            query?: {
                /** @description Maximum number of rows on a page. Values above 100 count as 100. */
                limit?: components["parameters"]["Limit"];
                /** @description `next_cursor` of the previous page. Send the same filters with it. */
                cursor?: components["parameters"]["Cursor"];
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A page of tenants, newest first. */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["TenantList"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["Unavailable"];
            504: components["responses"]["Timeout"];
        };
    };
    readTenant: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                tenant_name: components["schemas"]["TenantName"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The tenant. */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Tenant"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["Unavailable"];
            504: components["responses"]["Timeout"];
        };
    };
    putTenant: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                tenant_name: components["schemas"]["TenantName"];
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["TenantInput"];
            };
        };
        responses: {
            /** @description The tenant. */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Tenant"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["Unavailable"];
            504: components["responses"]["Timeout"];
        };
    };
    deleteTenant: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                tenant_name: components["schemas"]["TenantName"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description It is deleted. */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Deleted"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["Unavailable"];
            504: components["responses"]["Timeout"];
        };
    };
    listTenantKeys: {
        parameters: {
            query?: {
                /** @description Maximum number of rows on a page. Values above 100 count as 100. */
                limit?: components["parameters"]["Limit"];
                /** @description `next_cursor` of the previous page. Send the same filters with it. */
                cursor?: components["parameters"]["Cursor"];
            };
            header?: never;
            path: {
                tenant_name: components["schemas"]["TenantName"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A page of keys, newest first, with those that were revoked. */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["TenantKeyList"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["Unavailable"];
            504: components["responses"]["Timeout"];
        };
    };
    createTenantKey: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Makes retries safe: a repeat of this call within 24 hours has no further effect. It gets the response of the
                 *     first call, or for a sent event its current state, with `Idempotent-Replayed: true`. There are two
                 *     exceptions: with another API key, secrets in the response are masked; and if the fixture that the first call
                 *     made was deleted or has expired, or its event was erased, the repeat is answered with 404. 1 to 255 printable
                 *     ASCII characters, valid for this path. With another body the key is refused (`idempotency_mismatch`).
                 *
                 *     In a cluster, keys of sent events are as durable as its Redis: when that starts empty, a repeat stores a second
                 *     event. While Redis does not answer, a send with a key is answered 503 and stores nothing. A relay with its engines
                 *     inside keeps them in a file. Keys of other calls are durable.
                 */
                "Idempotency-Key"?: components["parameters"]["IdempotencyKey"];
            };
            path: {
                tenant_name: components["schemas"]["TenantName"];
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["TenantKeyInput"];
            };
        };
        responses: {
            /** @description The new key. */
            201: {
                headers: {
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    "Idempotent-Replayed": components["headers"]["Idempotent-Replayed"];
                    "Idempotency-Status": components["headers"]["Idempotency-Status"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["TenantKey"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["Unavailable"];
            504: components["responses"]["Timeout"];
        };
    };
    revokeTenantKey: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                tenant_name: components["schemas"]["TenantName"];
                key_id: components["schemas"]["KeyId"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description It is deleted. */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Deleted"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["Unavailable"];
            504: components["responses"]["Timeout"];
        };
    };
    sendToTenant: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Makes retries safe: a repeat of this call within 24 hours has no further effect. It gets the response of the
                 *     first call, or for a sent event its current state, with `Idempotent-Replayed: true`. There are two
                 *     exceptions: with another API key, secrets in the response are masked; and if the fixture that the first call
                 *     made was deleted or has expired, or its event was erased, the repeat is answered with 404. 1 to 255 printable
                 *     ASCII characters, valid for this path. With another body the key is refused (`idempotency_mismatch`).
                 *
                 *     In a cluster, keys of sent events are as durable as its Redis: when that starts empty, a repeat stores a second
                 *     event. While Redis does not answer, a send with a key is answered 503 and stores nothing. A relay with its engines
                 *     inside keeps them in a file. Keys of other calls are durable.
                 */
                "Idempotency-Key"?: components["parameters"]["IdempotencyKey"];
                /**
                 * @description With `accept`, a send is stored even while its `Idempotency-Key` cannot be checked. A repeat may then store a second
                 *     event, and the answer has `Idempotency-Status: unavailable`. Without this header such a send is answered 503.
                 */
                "Idempotency-Unavailable"?: components["parameters"]["IdempotencyUnavailable"];
            };
            path: {
                tenant_name: components["schemas"]["TenantName"];
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["EventSend"];
            };
        };
        responses: {
            /** @description The event is stored durably and queued for delivery. */
            202: {
                headers: {
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    "Idempotent-Replayed": components["headers"]["Idempotent-Replayed"];
                    "Idempotency-Status": components["headers"]["Idempotency-Status"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SentEvent"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["Unavailable"];
            504: components["responses"]["Timeout"];
        };
    };
    sendBatchToTenant: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Makes retries safe: a repeat of this call within 24 hours has no further effect. It gets the response of the
                 *     first call, or for a sent event its current state, with `Idempotent-Replayed: true`. There are two
                 *     exceptions: with another API key, secrets in the response are masked; and if the fixture that the first call
                 *     made was deleted or has expired, or its event was erased, the repeat is answered with 404. 1 to 255 printable
                 *     ASCII characters, valid for this path. With another body the key is refused (`idempotency_mismatch`).
                 *
                 *     In a cluster, keys of sent events are as durable as its Redis: when that starts empty, a repeat stores a second
                 *     event. While Redis does not answer, a send with a key is answered 503 and stores nothing. A relay with its engines
                 *     inside keeps them in a file. Keys of other calls are durable.
                 */
                "Idempotency-Key"?: components["parameters"]["IdempotencyKey"];
                /**
                 * @description With `accept`, a send is stored even while its `Idempotency-Key` cannot be checked. A repeat may then store a second
                 *     event, and the answer has `Idempotency-Status: unavailable`. Without this header such a send is answered 503.
                 */
                "Idempotency-Unavailable"?: components["parameters"]["IdempotencyUnavailable"];
            };
            path: {
                tenant_name: components["schemas"]["TenantName"];
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["EventBatch"];
            };
        };
        responses: {
            /** @description The result of each event, in the order of the request. */
            202: {
                headers: {
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    "Idempotent-Replayed": components["headers"]["Idempotent-Replayed"];
                    "Idempotency-Status": components["headers"]["Idempotency-Status"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["EventBatchResult"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["Unavailable"];
            504: components["responses"]["Timeout"];
        };
    };
    testTenant: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Makes retries safe: a repeat of this call within 24 hours has no further effect. It gets the response of the
                 *     first call, or for a sent event its current state, with `Idempotent-Replayed: true`. There are two
                 *     exceptions: with another API key, secrets in the response are masked; and if the fixture that the first call
                 *     made was deleted or has expired, or its event was erased, the repeat is answered with 404. 1 to 255 printable
                 *     ASCII characters, valid for this path. With another body the key is refused (`idempotency_mismatch`).
                 *
                 *     In a cluster, keys of sent events are as durable as its Redis: when that starts empty, a repeat stores a second
                 *     event. While Redis does not answer, a send with a key is answered 503 and stores nothing. A relay with its engines
                 *     inside keeps them in a file. Keys of other calls are durable.
                 */
                "Idempotency-Key"?: components["parameters"]["IdempotencyKey"];
            };
            path: {
                tenant_name: components["schemas"]["TenantName"];
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["EventTest"];
            };
        };
        responses: {
            /** @description The test event is stored durably and queued for delivery. */
            202: {
                headers: {
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    "Idempotent-Replayed": components["headers"]["Idempotent-Replayed"];
                    "Idempotency-Status": components["headers"]["Idempotency-Status"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SentEvent"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["Unavailable"];
            504: components["responses"]["Timeout"];
        };
    };
    listPortalLinks: {
        parameters: {
            query?: {
                /** @description Maximum number of rows on a page. Values above 100 count as 100. */
                limit?: components["parameters"]["Limit"];
                /** @description `next_cursor` of the previous page. Send the same filters with it. */
                cursor?: components["parameters"]["Cursor"];
            };
            header?: never;
            path: {
                tenant_name: components["schemas"]["TenantName"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A page of links that can be opened, and of open sessions, newest first. */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PortalLinkList"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["Unavailable"];
            504: components["responses"]["Timeout"];
        };
    };
    createPortalLink: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Makes retries safe: a repeat of this call within 24 hours has no further effect. It gets the response of the
                 *     first call, or for a sent event its current state, with `Idempotent-Replayed: true`. There are two
                 *     exceptions: with another API key, secrets in the response are masked; and if the fixture that the first call
                 *     made was deleted or has expired, or its event was erased, the repeat is answered with 404. 1 to 255 printable
                 *     ASCII characters, valid for this path. With another body the key is refused (`idempotency_mismatch`).
                 *
                 *     In a cluster, keys of sent events are as durable as its Redis: when that starts empty, a repeat stores a second
                 *     event. While Redis does not answer, a send with a key is answered 503 and stores nothing. A relay with its engines
                 *     inside keeps them in a file. Keys of other calls are durable.
                 */
                "Idempotency-Key"?: components["parameters"]["IdempotencyKey"];
            };
            path: {
                tenant_name: components["schemas"]["TenantName"];
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["PortalLinkInput"];
            };
        };
        responses: {
            /** @description The new link. */
            201: {
                headers: {
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    "Idempotent-Replayed": components["headers"]["Idempotent-Replayed"];
                    "Idempotency-Status": components["headers"]["Idempotency-Status"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PortalLink"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["Unavailable"];
            504: components["responses"]["Timeout"];
        };
    };
    endPortalLink: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                tenant_name: components["schemas"]["TenantName"];
                link_id: components["schemas"]["LinkId"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description It is deleted. */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Deleted"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["Unavailable"];
            504: components["responses"]["Timeout"];
        };
    };
    listEventTypes: {
        parameters: {
            query?: {
                /** @description Maximum number of rows on a page. Values above 100 count as 100. */
                limit?: components["parameters"]["Limit"];
                /** @description `next_cursor` of the previous page. Send the same filters with it. */
                cursor?: components["parameters"]["Cursor"];
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A page of event types, newest first. */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["EventTypeList"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["Unavailable"];
            504: components["responses"]["Timeout"];
        };
    };
    createEventType: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Makes retries safe: a repeat of this call within 24 hours has no further effect. It gets the response of the
                 *     first call, or for a sent event its current state, with `Idempotent-Replayed: true`. There are two
                 *     exceptions: with another API key, secrets in the response are masked; and if the fixture that the first call
                 *     made was deleted or has expired, or its event was erased, the repeat is answered with 404. 1 to 255 printable
                 *     ASCII characters, valid for this path. With another body the key is refused (`idempotency_mismatch`).
                 *
                 *     In a cluster, keys of sent events are as durable as its Redis: when that starts empty, a repeat stores a second
                 *     event. While Redis does not answer, a send with a key is answered 503 and stores nothing. A relay with its engines
                 *     inside keeps them in a file. Keys of other calls are durable.
                 */
                "Idempotency-Key"?: components["parameters"]["IdempotencyKey"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["EventTypeInput"];
            };
        };
        responses: {
            /** @description The new type. */
            201: {
                headers: {
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    "Idempotent-Replayed": components["headers"]["Idempotent-Replayed"];
                    "Idempotency-Status": components["headers"]["Idempotency-Status"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["EventType"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["Unavailable"];
            504: components["responses"]["Timeout"];
        };
    };
    importEventTypes: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Makes retries safe: a repeat of this call within 24 hours has no further effect. It gets the response of the
                 *     first call, or for a sent event its current state, with `Idempotent-Replayed: true`. There are two
                 *     exceptions: with another API key, secrets in the response are masked; and if the fixture that the first call
                 *     made was deleted or has expired, or its event was erased, the repeat is answered with 404. 1 to 255 printable
                 *     ASCII characters, valid for this path. With another body the key is refused (`idempotency_mismatch`).
                 *
                 *     In a cluster, keys of sent events are as durable as its Redis: when that starts empty, a repeat stores a second
                 *     event. While Redis does not answer, a send with a key is answered 503 and stores nothing. A relay with its engines
                 *     inside keeps them in a file. Keys of other calls are durable.
                 */
                "Idempotency-Key"?: components["parameters"]["IdempotencyKey"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["OpenAPIDocument"];
            };
        };
        responses: {
            /** @description What was changed. */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    "Idempotent-Replayed": components["headers"]["Idempotent-Replayed"];
                    "Idempotency-Status": components["headers"]["Idempotency-Status"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["EventTypesImported"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["Unavailable"];
            504: components["responses"]["Timeout"];
        };
    };
    exportEventTypes: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The document. */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["OpenAPIDocument"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["Unavailable"];
            504: components["responses"]["Timeout"];
        };
    };
    readSeenEventTypes: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The types. */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["EventTypesSeen"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["Unavailable"];
            504: components["responses"]["Timeout"];
        };
    };
    readEventType: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                event_type_name: components["schemas"]["EventTypeName"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The type. */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["EventType"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["Unavailable"];
            504: components["responses"]["Timeout"];
        };
    };
    putEventType: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                event_type_name: components["schemas"]["EventTypeName"];
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["EventTypeInput"];
            };
        };
        responses: {
            /** @description The type. */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["EventType"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["Unavailable"];
            504: components["responses"]["Timeout"];
        };
    };
    deleteEventType: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                event_type_name: components["schemas"]["EventTypeName"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description It is deleted. */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Deleted"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["Unavailable"];
            504: components["responses"]["Timeout"];
        };
    };
    updateEventType: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                event_type_name: components["schemas"]["EventTypeName"];
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["EventTypeInput"];
            };
        };
        responses: {
            /** @description The changed type. */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["EventType"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["Unavailable"];
            504: components["responses"]["Timeout"];
        };
    };
    readCatalogueSettings: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The settings. */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CatalogueSettings"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["Unavailable"];
            504: components["responses"]["Timeout"];
        };
    };
    updateCatalogueSettings: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["CatalogueSettingsInput"];
            };
        };
        responses: {
            /** @description The changed settings. */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CatalogueSettings"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["Unavailable"];
            504: components["responses"]["Timeout"];
        };
    };
    createDestination: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Makes retries safe: a repeat of this call within 24 hours has no further effect. It gets the response of the
                 *     first call, or for a sent event its current state, with `Idempotent-Replayed: true`. There are two
                 *     exceptions: with another API key, secrets in the response are masked; and if the fixture that the first call
                 *     made was deleted or has expired, or its event was erased, the repeat is answered with 404. 1 to 255 printable
                 *     ASCII characters, valid for this path. With another body the key is refused (`idempotency_mismatch`).
                 *
                 *     In a cluster, keys of sent events are as durable as its Redis: when that starts empty, a repeat stores a second
                 *     event. While Redis does not answer, a send with a key is answered 503 and stores nothing. A relay with its engines
                 *     inside keeps them in a file. Keys of other calls are durable.
                 */
                "Idempotency-Key"?: components["parameters"]["IdempotencyKey"];
            };
            path: {
                endpoint_id: components["schemas"]["EndpointId"];
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["DestinationCreate"];
            };
        };
        responses: {
            /** @description The new destination. */
            201: {
                headers: {
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    "Idempotent-Replayed": components["headers"]["Idempotent-Replayed"];
                    "Idempotency-Status": components["headers"]["Idempotency-Status"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Destination"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["Unavailable"];
            504: components["responses"]["Timeout"];
        };
    };
    deleteDestination: {
        parameters: {
            query?: never;
            header?: {
                /** @description `ETag` of the endpoint as you read it. If somebody has changed it since, nothing is done, and the response is a `conflict`. */
                "If-Match"?: components["parameters"]["IfMatch"];
            };
            path: {
                endpoint_id: components["schemas"]["EndpointId"];
                destination_id: components["schemas"]["DestinationId"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description It is deleted. */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Deleted"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["Unavailable"];
            504: components["responses"]["Timeout"];
        };
    };
    updateDestination: {
        parameters: {
            query?: never;
            header?: {
                /** @description `ETag` of the endpoint as you read it. If somebody has changed it since, nothing is done, and the response is a `conflict`. */
                "If-Match"?: components["parameters"]["IfMatch"];
            };
            path: {
                endpoint_id: components["schemas"]["EndpointId"];
                destination_id: components["schemas"]["DestinationId"];
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["DestinationInput"];
            };
        };
        responses: {
            /** @description The destination after the change. */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Destination"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["Unavailable"];
            504: components["responses"]["Timeout"];
        };
    };
    rotateSecret: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Makes retries safe: a repeat of this call within 24 hours has no further effect. It gets the response of the
                 *     first call, or for a sent event its current state, with `Idempotent-Replayed: true`. There are two
                 *     exceptions: with another API key, secrets in the response are masked; and if the fixture that the first call
                 *     made was deleted or has expired, or its event was erased, the repeat is answered with 404. 1 to 255 printable
                 *     ASCII characters, valid for this path. With another body the key is refused (`idempotency_mismatch`).
                 *
                 *     In a cluster, keys of sent events are as durable as its Redis: when that starts empty, a repeat stores a second
                 *     event. While Redis does not answer, a send with a key is answered 503 and stores nothing. A relay with its engines
                 *     inside keeps them in a file. Keys of other calls are durable.
                 */
                "Idempotency-Key"?: components["parameters"]["IdempotencyKey"];
            };
            path: {
                endpoint_id: components["schemas"]["EndpointId"];
                destination_id: components["schemas"]["DestinationId"];
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": {
                    /** @description How long the previous secret also signs, in seconds. Default `86400`; 0 ends it at once. */
                    overlap_seconds?: number;
                    /**
                     * @description That of the new secret. Default: as before.
                     * @enum {string}
                     */
                    algorithm?: "hmac-sha256" | "ed25519";
                };
            };
        };
        responses: {
            /** @description The destination with `signing.secret`. */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    "Idempotent-Replayed": components["headers"]["Idempotent-Replayed"];
                    "Idempotency-Status": components["headers"]["Idempotency-Status"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Destination"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["Unavailable"];
            504: components["responses"]["Timeout"];
        };
    };
    purgeDestination: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Makes retries safe: a repeat of this call within 24 hours has no further effect. It gets the response of the
                 *     first call, or for a sent event its current state, with `Idempotent-Replayed: true`. There are two
                 *     exceptions: with another API key, secrets in the response are masked; and if the fixture that the first call
                 *     made was deleted or has expired, or its event was erased, the repeat is answered with 404. 1 to 255 printable
                 *     ASCII characters, valid for this path. With another body the key is refused (`idempotency_mismatch`).
                 *
                 *     In a cluster, keys of sent events are as durable as its Redis: when that starts empty, a repeat stores a second
                 *     event. While Redis does not answer, a send with a key is answered 503 and stores nothing. A relay with its engines
                 *     inside keeps them in a file. Keys of other calls are durable.
                 */
                "Idempotency-Key"?: components["parameters"]["IdempotencyKey"];
            };
            path: {
                endpoint_id: components["schemas"]["EndpointId"];
                destination_id: components["schemas"]["DestinationId"];
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": {
                    /** @description Not in the future. Default: now. */
                    before?: components["schemas"]["PastTime"];
                };
            };
        };
        responses: {
            /** @description The time before which the destination is now purged. */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    "Idempotent-Replayed": components["headers"]["Idempotent-Replayed"];
                    "Idempotency-Status": components["headers"]["Idempotency-Status"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Purged"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["Unavailable"];
            504: components["responses"]["Timeout"];
        };
    };
    pullEvents: {
        parameters: {
            query: {
                /** @description Name of the program that pulls. */
                consumer: string;
                /** @description Most events of the answer. Default `10`. A node leases no more than `max_in_flight` events of a destination at the same time. */
                max?: number;
                /** @description How long to wait for the first event, in seconds. Default `0`. */
                wait?: number;
            };
            header?: never;
            path: {
                endpoint_id: components["schemas"]["EndpointId"];
                destination_id: components["schemas"]["DestinationId"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The events. There may be none. */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Pulled"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["Unavailable"];
            504: components["responses"]["Timeout"];
        };
    };
    acknowledgeEvents: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                endpoint_id: components["schemas"]["EndpointId"];
                destination_id: components["schemas"]["DestinationId"];
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": {
                    /** @description The `attempt_id` of each event. */
                    attempt_ids: string[];
                };
            };
        };
        responses: {
            /** @description What became of each attempt. */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Acknowledged"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["Unavailable"];
            504: components["responses"]["Timeout"];
        };
    };
    listConsumers: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                endpoint_id: components["schemas"]["EndpointId"];
                destination_id: components["schemas"]["DestinationId"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The consumers. */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Consumers"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["Unavailable"];
            504: components["responses"]["Timeout"];
        };
    };
    sendEvent: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Makes retries safe: a repeat of this call within 24 hours has no further effect. It gets the response of the
                 *     first call, or for a sent event its current state, with `Idempotent-Replayed: true`. There are two
                 *     exceptions: with another API key, secrets in the response are masked; and if the fixture that the first call
                 *     made was deleted or has expired, or its event was erased, the repeat is answered with 404. 1 to 255 printable
                 *     ASCII characters, valid for this path. With another body the key is refused (`idempotency_mismatch`).
                 *
                 *     In a cluster, keys of sent events are as durable as its Redis: when that starts empty, a repeat stores a second
                 *     event. While Redis does not answer, a send with a key is answered 503 and stores nothing. A relay with its engines
                 *     inside keeps them in a file. Keys of other calls are durable.
                 */
                "Idempotency-Key"?: components["parameters"]["IdempotencyKey"];
                /**
                 * @description With `accept`, a send is stored even while its `Idempotency-Key` cannot be checked. A repeat may then store a second
                 *     event, and the answer has `Idempotency-Status: unavailable`. Without this header such a send is answered 503.
                 */
                "Idempotency-Unavailable"?: components["parameters"]["IdempotencyUnavailable"];
            };
            path: {
                endpoint_id: components["schemas"]["EndpointId"];
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["EventSend"];
            };
        };
        responses: {
            /** @description The event is stored durably and queued for delivery. */
            202: {
                headers: {
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    "Idempotent-Replayed": components["headers"]["Idempotent-Replayed"];
                    "Idempotency-Status": components["headers"]["Idempotency-Status"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SentEvent"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["Unavailable"];
            504: components["responses"]["Timeout"];
        };
    };
    sendEvents: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Makes retries safe: a repeat of this call within 24 hours has no further effect. It gets the response of the
                 *     first call, or for a sent event its current state, with `Idempotent-Replayed: true`. There are two
                 *     exceptions: with another API key, secrets in the response are masked; and if the fixture that the first call
                 *     made was deleted or has expired, or its event was erased, the repeat is answered with 404. 1 to 255 printable
                 *     ASCII characters, valid for this path. With another body the key is refused (`idempotency_mismatch`).
                 *
                 *     In a cluster, keys of sent events are as durable as its Redis: when that starts empty, a repeat stores a second
                 *     event. While Redis does not answer, a send with a key is answered 503 and stores nothing. A relay with its engines
                 *     inside keeps them in a file. Keys of other calls are durable.
                 */
                "Idempotency-Key"?: components["parameters"]["IdempotencyKey"];
                /**
                 * @description With `accept`, a send is stored even while its `Idempotency-Key` cannot be checked. A repeat may then store a second
                 *     event, and the answer has `Idempotency-Status: unavailable`. Without this header such a send is answered 503.
                 */
                "Idempotency-Unavailable"?: components["parameters"]["IdempotencyUnavailable"];
            };
            path: {
                endpoint_id: components["schemas"]["EndpointId"];
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["EventBatch"];
                "application/x-ndjson": string;
            };
        };
        responses: {
            /** @description The result of each event, in the order of the request. */
            202: {
                headers: {
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    "Idempotent-Replayed": components["headers"]["Idempotent-Replayed"];
                    "Idempotency-Status": components["headers"]["Idempotency-Status"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["EventBatchResult"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["Unavailable"];
            504: components["responses"]["Timeout"];
        };
    };
    streamEvents: {
        parameters: {
            query?: never;
            header?: {
                /** @description `id` of the last item that you have processed. */
                "Last-Event-ID"?: components["parameters"]["LastEventID"];
            };
            path: {
                endpoint_id: components["schemas"]["EndpointId"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The stream. It stays open until one side closes it. */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    "X-Accel-Buffering": components["headers"]["X-Accel-Buffering"];
                    [name: string]: unknown;
                };
                content: {
                    "text/event-stream": components["schemas"]["StreamItem"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["Unavailable"];
            504: components["responses"]["Timeout"];
        };
    };
    listEvents: {
        parameters: {
            query?: {
                /** @description Also: `endpoint`. */
                endpoint_id?: components["schemas"]["FilterValues"];
                destination_id?: components["schemas"]["FilterValues"];
                /** @description Events that this replay run or recovery job delivered or tried to deliver. */
                run_id?: components["schemas"]["FilterValues"];
                status?: ("pending" | "retrying" | "delivered" | "failed" | "skipped" | "rejected" | "held")[];
                /** @description An event type, or a prefix such as `order.*`. */
                type?: components["schemas"]["FilterTypes"];
                source?: ("provider" | "api" | "test" | "reconcile")[];
                /** @description State of the newest processing receipt. `missing`: delivered without a receipt. */
                processing?: ("none" | "processing" | "processed" | "failed" | "missing")[];
                /** @description Events of the endpoints of these tenants. */
                tenant?: components["schemas"]["FilterValues"];
                /** @description Received at this time or later. Also: `from`, `start`. */
                since?: components["schemas"]["FilterTime"];
                /** @description Received before this time. A time in the future means now, and `since` must be before it. Also: `to`, `end`. */
                until?: components["schemas"]["FilterTime"];
                /**
                 * @description Text to find in body, headers or id, ignoring case, also where a JSON body has escapes for `/`, `&`, quotes or
                 *     characters other than ASCII. A search covers the last 24 hours unless `since` is set, and at most 31 days. It
                 *     may end before its page is full; then the response has `partial` and a cursor to continue. An account may run
                 *     two searches at a time, and an API key one.
                 */
                q?: string;
                /** @description `body[data.order.id]=42`: the value at a path of the JSON body, compared as text, numbers also by their value. Repeats are alternatives. At most ten `body` and `header` filters. A path is members and indexes of arrays with dots between them (`data.items.0.id`), optionally after `$.`. All other characters are literal; a path with `/`, `*` or `[` that looks like another syntax has a warning. */
                body?: {
                    [key: string]: string;
                };
                /** @description `header[x-request-id]=abc`: the value of a header. The name is case-insensitive. Repeats are alternatives. */
                header?: {
                    [key: string]: string;
                };
                /** @description Maximum number of rows on a page. Values above 100 count as 100. */
                limit?: components["parameters"]["Limit"];
                /** @description `next_cursor` of the previous page. Send the same filters with it. */
                cursor?: components["parameters"]["Cursor"];
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A page of events, newest first. */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    "Relay-Data-As-Of": components["headers"]["Relay-Data-As-Of"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["EventList"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["Unavailable"];
            504: components["responses"]["Timeout"];
        };
    };
    countEvents: {
        parameters: {
            query?: {
                /** @description Also: `endpoint`. */
                endpoint_id?: components["schemas"]["FilterValues"];
                destination_id?: components["schemas"]["FilterValues"];
                /** @description Events that this replay run or recovery job delivered or tried to deliver. */
                run_id?: components["schemas"]["FilterValues"];
                status?: ("pending" | "retrying" | "delivered" | "failed" | "skipped" | "rejected" | "held")[];
                /** @description An event type, or a prefix such as `order.*`. */
                type?: components["schemas"]["FilterTypes"];
                source?: ("provider" | "api" | "test" | "reconcile")[];
                /** @description State of the newest processing receipt. `missing`: delivered without a receipt. */
                processing?: ("none" | "processing" | "processed" | "failed" | "missing")[];
                /** @description Events of the endpoints of these tenants. */
                tenant?: components["schemas"]["FilterValues"];
                /** @description Received at this time or later. Also: `from`, `start`. */
                since?: components["schemas"]["FilterTime"];
                /** @description Received before this time. A time in the future means now, and `since` must be before it. Also: `to`, `end`. */
                until?: components["schemas"]["FilterTime"];
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The counts of the newest events. */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    "Relay-Data-As-Of": components["headers"]["Relay-Data-As-Of"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CountedEvents"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["Unavailable"];
            504: components["responses"]["Timeout"];
        };
    };
    readEvent: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                event_id: components["schemas"]["EventId"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The event. */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    "Relay-Data-As-Of": components["headers"]["Relay-Data-As-Of"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Event"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["Unavailable"];
            504: components["responses"]["Timeout"];
        };
    };
    listAttempts: {
        parameters: {
            query?: {
                /** @description Maximum number of rows on a page. Values above 100 count as 100. */
                limit?: components["parameters"]["Limit"];
                /** @description `next_cursor` of the previous page. Send the same filters with it. */
                cursor?: components["parameters"]["Cursor"];
            };
            header?: never;
            path: {
                event_id: components["schemas"]["EventId"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A page of attempts, newest first, with response bodies of up to 16 KiB. */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    "Relay-Data-As-Of": components["headers"]["Relay-Data-As-Of"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AttemptList"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["Unavailable"];
            504: components["responses"]["Timeout"];
        };
    };
    explainEventSignature: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                event_id: components["schemas"]["EventId"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The explanation. */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    "Relay-Data-As-Of": components["headers"]["Relay-Data-As-Of"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SignatureExplanation"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["Unavailable"];
            504: components["responses"]["Timeout"];
        };
    };
    eraseEventPayload: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                event_id: components["schemas"]["EventId"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The payload is erased. */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PayloadErased"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["Unavailable"];
            504: components["responses"]["Timeout"];
        };
    };
    reportProcessing: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Makes retries safe: a repeat of this call within 24 hours has no further effect. It gets the response of the
                 *     first call, or for a sent event its current state, with `Idempotent-Replayed: true`. There are two
                 *     exceptions: with another API key, secrets in the response are masked; and if the fixture that the first call
                 *     made was deleted or has expired, or its event was erased, the repeat is answered with 404. 1 to 255 printable
                 *     ASCII characters, valid for this path. With another body the key is refused (`idempotency_mismatch`).
                 *
                 *     In a cluster, keys of sent events are as durable as its Redis: when that starts empty, a repeat stores a second
                 *     event. While Redis does not answer, a send with a key is answered 503 and stores nothing. A relay with its engines
                 *     inside keeps them in a file. Keys of other calls are durable.
                 */
                "Idempotency-Key"?: components["parameters"]["IdempotencyKey"];
            };
            path: {
                event_id: components["schemas"]["EventId"];
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["ReceiptReport"];
            };
        };
        responses: {
            /** @description The receipt that is now in effect. */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    "Idempotent-Replayed": components["headers"]["Idempotent-Replayed"];
                    "Idempotency-Status": components["headers"]["Idempotency-Status"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ReceiptResult"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["Unavailable"];
            504: components["responses"]["Timeout"];
        };
    };
    replayEvent: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Makes retries safe: a repeat of this call within 24 hours has no further effect. It gets the response of the
                 *     first call, or for a sent event its current state, with `Idempotent-Replayed: true`. There are two
                 *     exceptions: with another API key, secrets in the response are masked; and if the fixture that the first call
                 *     made was deleted or has expired, or its event was erased, the repeat is answered with 404. 1 to 255 printable
                 *     ASCII characters, valid for this path. With another body the key is refused (`idempotency_mismatch`).
                 *
                 *     In a cluster, keys of sent events are as durable as its Redis: when that starts empty, a repeat stores a second
                 *     event. While Redis does not answer, a send with a key is answered 503 and stores nothing. A relay with its engines
                 *     inside keeps them in a file. Keys of other calls are durable.
                 */
                "Idempotency-Key"?: components["parameters"]["IdempotencyKey"];
            };
            path: {
                event_id: components["schemas"]["EventId"];
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": {
                    destination_id?: components["schemas"]["DestinationIds"];
                    only_undelivered?: components["schemas"]["OnlyUndelivered"];
                };
            };
        };
        responses: {
            /** @description What was queued. If no destination is enabled, nothing was queued and there is a warning. A destination whose filter leaves the event out has a warning: its delivery ends as `skipped` (`filtered`). */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    "Idempotent-Replayed": components["headers"]["Idempotent-Replayed"];
                    "Idempotency-Status": components["headers"]["Idempotency-Status"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ReplayResult"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["Unavailable"];
            504: components["responses"]["Timeout"];
        };
    };
    listReplays: {
        parameters: {
            query?: {
                state?: ("queueing" | "queued" | "interrupted" | "cancelled")[];
                /** @description Runs whose filter names this endpoint. Also: `endpoint`. */
                endpoint_id?: components["schemas"]["FilterValues"];
                /** @description Runs whose filter names an endpoint of these tenants. */
                tenant?: components["schemas"]["FilterValues"];
                /** @description Maximum number of rows on a page. Values above 100 count as 100. */
                limit?: components["parameters"]["Limit"];
                /** @description `next_cursor` of the previous page. Send the same filters with it. */
                cursor?: components["parameters"]["Cursor"];
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A page of the runs of the last 30 days, newest first. */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    "Relay-Data-As-Of": components["headers"]["Relay-Data-As-Of"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ReplayRunList"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["Unavailable"];
            504: components["responses"]["Timeout"];
        };
    };
    replayEvents: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Makes retries safe: a repeat of this call within 24 hours has no further effect. It gets the response of the
                 *     first call, or for a sent event its current state, with `Idempotent-Replayed: true`. There are two
                 *     exceptions: with another API key, secrets in the response are masked; and if the fixture that the first call
                 *     made was deleted or has expired, or its event was erased, the repeat is answered with 404. 1 to 255 printable
                 *     ASCII characters, valid for this path. With another body the key is refused (`idempotency_mismatch`).
                 *
                 *     In a cluster, keys of sent events are as durable as its Redis: when that starts empty, a repeat stores a second
                 *     event. While Redis does not answer, a send with a key is answered 503 and stores nothing. A relay with its engines
                 *     inside keeps them in a file. Keys of other calls are durable.
                 */
                "Idempotency-Key"?: components["parameters"]["IdempotencyKey"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["ReplayInput"];
            };
        };
        responses: {
            /** @description What was queued, or would be queued with `dry_run`. */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    "Idempotent-Replayed": components["headers"]["Idempotent-Replayed"];
                    "Idempotency-Status": components["headers"]["Idempotency-Status"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SelectionReplayResult"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["Unavailable"];
            504: components["responses"]["Timeout"];
        };
    };
    readReplay: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                run_id: components["schemas"]["RunId"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The run of a selection or of a single event, with the outcomes of its deliveries. */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    "Relay-Data-As-Of": components["headers"]["Relay-Data-As-Of"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ReplayRun"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["Unavailable"];
            504: components["responses"]["Timeout"];
        };
    };
    actOnReplay: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Makes retries safe: a repeat of this call within 24 hours has no further effect. It gets the response of the
                 *     first call, or for a sent event its current state, with `Idempotent-Replayed: true`. There are two
                 *     exceptions: with another API key, secrets in the response are masked; and if the fixture that the first call
                 *     made was deleted or has expired, or its event was erased, the repeat is answered with 404. 1 to 255 printable
                 *     ASCII characters, valid for this path. With another body the key is refused (`idempotency_mismatch`).
                 *
                 *     In a cluster, keys of sent events are as durable as its Redis: when that starts empty, a repeat stores a second
                 *     event. While Redis does not answer, a send with a key is answered 503 and stores nothing. A relay with its engines
                 *     inside keeps them in a file. Keys of other calls are durable.
                 */
                "Idempotency-Key"?: components["parameters"]["IdempotencyKey"];
            };
            path: {
                run_id: components["schemas"]["RunId"];
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": {
                    /** @enum {string} */
                    action: "cancel";
                };
            };
        };
        responses: {
            /** @description The run, cancelled. */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    "Idempotent-Replayed": components["headers"]["Idempotent-Replayed"];
                    "Idempotency-Status": components["headers"]["Idempotency-Status"];
                    "Relay-Data-As-Of": components["headers"]["Relay-Data-As-Of"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ReplayRun"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["Unavailable"];
            504: components["responses"]["Timeout"];
        };
    };
    listRecoveries: {
        parameters: {
            query?: {
                state?: ("preparing" | "ready" | "canary_running" | "awaiting_approval" | "running" | "completed" | "stopped" | "cancelled" | "expired" | "failed")[];
                endpoint_id?: components["schemas"]["FilterValues"];
                /** @description Jobs of the endpoints of these tenants. */
                tenant?: components["schemas"]["FilterValues"];
                /** @description Maximum number of rows on a page. Values above 100 count as 100. */
                limit?: components["parameters"]["Limit"];
                /** @description `next_cursor` of the previous page. Send the same filters with it. */
                cursor?: components["parameters"]["Cursor"];
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A page of the jobs of the last 30 days, newest first. */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    "Relay-Data-As-Of": components["headers"]["Relay-Data-As-Of"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RecoveryList"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["Unavailable"];
            504: components["responses"]["Timeout"];
        };
    };
    createRecovery: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Makes retries safe: a repeat of this call within 24 hours has no further effect. It gets the response of the
                 *     first call, or for a sent event its current state, with `Idempotent-Replayed: true`. There are two
                 *     exceptions: with another API key, secrets in the response are masked; and if the fixture that the first call
                 *     made was deleted or has expired, or its event was erased, the repeat is answered with 404. 1 to 255 printable
                 *     ASCII characters, valid for this path. With another body the key is refused (`idempotency_mismatch`).
                 *
                 *     In a cluster, keys of sent events are as durable as its Redis: when that starts empty, a repeat stores a second
                 *     event. While Redis does not answer, a send with a key is answered 503 and stores nothing. A relay with its engines
                 *     inside keeps them in a file. Keys of other calls are durable.
                 */
                "Idempotency-Key"?: components["parameters"]["IdempotencyKey"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["RecoveryInput"];
            };
        };
        responses: {
            /** @description The recovery job. */
            201: {
                headers: {
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    "Idempotent-Replayed": components["headers"]["Idempotent-Replayed"];
                    "Idempotency-Status": components["headers"]["Idempotency-Status"];
                    "Relay-Data-As-Of": components["headers"]["Relay-Data-As-Of"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Recovery"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["Unavailable"];
            504: components["responses"]["Timeout"];
        };
    };
    readRecovery: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                recovery_id: components["schemas"]["RecoveryId"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The recovery job. */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    "Relay-Data-As-Of": components["headers"]["Relay-Data-As-Of"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Recovery"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["Unavailable"];
            504: components["responses"]["Timeout"];
        };
    };
    actOnRecovery: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Makes retries safe: a repeat of this call within 24 hours has no further effect. It gets the response of the
                 *     first call, or for a sent event its current state, with `Idempotent-Replayed: true`. There are two
                 *     exceptions: with another API key, secrets in the response are masked; and if the fixture that the first call
                 *     made was deleted or has expired, or its event was erased, the repeat is answered with 404. 1 to 255 printable
                 *     ASCII characters, valid for this path. With another body the key is refused (`idempotency_mismatch`).
                 *
                 *     In a cluster, keys of sent events are as durable as its Redis: when that starts empty, a repeat stores a second
                 *     event. While Redis does not answer, a send with a key is answered 503 and stores nothing. A relay with its engines
                 *     inside keeps them in a file. Keys of other calls are durable.
                 */
                "Idempotency-Key"?: components["parameters"]["IdempotencyKey"];
            };
            path: {
                recovery_id: components["schemas"]["RecoveryId"];
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["RecoveryAction"];
            };
        };
        responses: {
            /** @description The job after the action. */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    "Idempotent-Replayed": components["headers"]["Idempotent-Replayed"];
                    "Idempotency-Status": components["headers"]["Idempotency-Status"];
                    "Relay-Data-As-Of": components["headers"]["Relay-Data-As-Of"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Recovery"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["Unavailable"];
            504: components["responses"]["Timeout"];
        };
    };
    listRecoveryItems: {
        parameters: {
            query?: {
                state?: ("pending" | "queued" | "delivered" | "failed" | "skipped")[];
                /** @description `true`: only the deliveries of the canary. */
                canary?: "true"[];
                /** @description Maximum number of rows on a page. Values above 100 count as 100. */
                limit?: components["parameters"]["Limit"];
                /** @description `next_cursor` of the previous page. Send the same filters with it. */
                cursor?: components["parameters"]["Cursor"];
            };
            header?: never;
            path: {
                recovery_id: components["schemas"]["RecoveryId"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A page of the job's deliveries. */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    "Relay-Data-As-Of": components["headers"]["Relay-Data-As-Of"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RecoveryItemList"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["Unavailable"];
            504: components["responses"]["Timeout"];
        };
    };
    listDrains: {
        parameters: {
            query?: {
                /** @description Maximum number of rows on a page. Values above 100 count as 100. */
                limit?: components["parameters"]["Limit"];
                /** @description `next_cursor` of the previous page. Send the same filters with it. */
                cursor?: components["parameters"]["Cursor"];
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A page of drains, newest first. */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DrainList"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["Unavailable"];
            504: components["responses"]["Timeout"];
        };
    };
    createDrain: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Makes retries safe: a repeat of this call within 24 hours has no further effect. It gets the response of the
                 *     first call, or for a sent event its current state, with `Idempotent-Replayed: true`. There are two
                 *     exceptions: with another API key, secrets in the response are masked; and if the fixture that the first call
                 *     made was deleted or has expired, or its event was erased, the repeat is answered with 404. 1 to 255 printable
                 *     ASCII characters, valid for this path. With another body the key is refused (`idempotency_mismatch`).
                 *
                 *     In a cluster, keys of sent events are as durable as its Redis: when that starts empty, a repeat stores a second
                 *     event. While Redis does not answer, a send with a key is answered 503 and stores nothing. A relay with its engines
                 *     inside keeps them in a file. Keys of other calls are durable.
                 */
                "Idempotency-Key"?: components["parameters"]["IdempotencyKey"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["DrainInput"];
            };
        };
        responses: {
            /** @description The drain with its `url`. */
            201: {
                headers: {
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    "Idempotent-Replayed": components["headers"]["Idempotent-Replayed"];
                    "Idempotency-Status": components["headers"]["Idempotency-Status"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Drain"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["Unavailable"];
            504: components["responses"]["Timeout"];
        };
    };
    readDrain: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                drain_id: components["schemas"]["DrainId"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The drain. */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Drain"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["Unavailable"];
            504: components["responses"]["Timeout"];
        };
    };
    deleteDrain: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                drain_id: components["schemas"]["DrainId"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description It is deleted. */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Deleted"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["Unavailable"];
            504: components["responses"]["Timeout"];
        };
    };
    updateDrain: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                drain_id: components["schemas"]["DrainId"];
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["DrainUpdate"];
            };
        };
        responses: {
            /** @description The changed drain. */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Drain"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["Unavailable"];
            504: components["responses"]["Timeout"];
        };
    };
    rotateDrain: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Makes retries safe: a repeat of this call within 24 hours has no further effect. It gets the response of the
                 *     first call, or for a sent event its current state, with `Idempotent-Replayed: true`. There are two
                 *     exceptions: with another API key, secrets in the response are masked; and if the fixture that the first call
                 *     made was deleted or has expired, or its event was erased, the repeat is answered with 404. 1 to 255 printable
                 *     ASCII characters, valid for this path. With another body the key is refused (`idempotency_mismatch`).
                 *
                 *     In a cluster, keys of sent events are as durable as its Redis: when that starts empty, a repeat stores a second
                 *     event. While Redis does not answer, a send with a key is answered 503 and stores nothing. A relay with its engines
                 *     inside keeps them in a file. Keys of other calls are durable.
                 */
                "Idempotency-Key"?: components["parameters"]["IdempotencyKey"];
            };
            path: {
                drain_id: components["schemas"]["DrainId"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The drain with its new `url`. */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    "Idempotent-Replayed": components["headers"]["Idempotent-Replayed"];
                    "Idempotency-Status": components["headers"]["Idempotency-Status"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Drain"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["Unavailable"];
            504: components["responses"]["Timeout"];
        };
    };
    listDomains: {
        parameters: {
            query?: {
                /** @description Maximum number of rows on a page. Values above 100 count as 100. */
                limit?: components["parameters"]["Limit"];
                /** @description `next_cursor` of the previous page. Send the same filters with it. */
                cursor?: components["parameters"]["Cursor"];
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A page of domains, newest first. */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DomainList"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["Unavailable"];
            504: components["responses"]["Timeout"];
        };
    };
    createDomain: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Makes retries safe: a repeat of this call within 24 hours has no further effect. It gets the response of the
                 *     first call, or for a sent event its current state, with `Idempotent-Replayed: true`. There are two
                 *     exceptions: with another API key, secrets in the response are masked; and if the fixture that the first call
                 *     made was deleted or has expired, or its event was erased, the repeat is answered with 404. 1 to 255 printable
                 *     ASCII characters, valid for this path. With another body the key is refused (`idempotency_mismatch`).
                 *
                 *     In a cluster, keys of sent events are as durable as its Redis: when that starts empty, a repeat stores a second
                 *     event. While Redis does not answer, a send with a key is answered 503 and stores nothing. A relay with its engines
                 *     inside keeps them in a file. Keys of other calls are durable.
                 */
                "Idempotency-Key"?: components["parameters"]["IdempotencyKey"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["DomainInput"];
            };
        };
        responses: {
            /** @description The domain with its token. */
            201: {
                headers: {
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    "Idempotent-Replayed": components["headers"]["Idempotent-Replayed"];
                    "Idempotency-Status": components["headers"]["Idempotency-Status"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Domain"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["Unavailable"];
            504: components["responses"]["Timeout"];
        };
    };
    readDomain: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                domain_id: components["schemas"]["DomainId"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The domain. */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Domain"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["Unavailable"];
            504: components["responses"]["Timeout"];
        };
    };
    deleteDomain: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                domain_id: components["schemas"]["DomainId"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description It is deleted. */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Deleted"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["Unavailable"];
            504: components["responses"]["Timeout"];
        };
    };
    verifyDomain: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Makes retries safe: a repeat of this call within 24 hours has no further effect. It gets the response of the
                 *     first call, or for a sent event its current state, with `Idempotent-Replayed: true`. There are two
                 *     exceptions: with another API key, secrets in the response are masked; and if the fixture that the first call
                 *     made was deleted or has expired, or its event was erased, the repeat is answered with 404. 1 to 255 printable
                 *     ASCII characters, valid for this path. With another body the key is refused (`idempotency_mismatch`).
                 *
                 *     In a cluster, keys of sent events are as durable as its Redis: when that starts empty, a repeat stores a second
                 *     event. While Redis does not answer, a send with a key is answered 503 and stores nothing. A relay with its engines
                 *     inside keeps them in a file. Keys of other calls are durable.
                 */
                "Idempotency-Key"?: components["parameters"]["IdempotencyKey"];
            };
            path: {
                domain_id: components["schemas"]["DomainId"];
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["DomainVerification"];
            };
        };
        responses: {
            /** @description The domain, verified or not. */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    "Idempotent-Replayed": components["headers"]["Idempotent-Replayed"];
                    "Idempotency-Status": components["headers"]["Idempotency-Status"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Domain"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["Unavailable"];
            504: components["responses"]["Timeout"];
        };
    };
    listDSNs: {
        parameters: {
            query?: {
                /** @description Maximum number of rows on a page. Values above 100 count as 100. */
                limit?: components["parameters"]["Limit"];
                /** @description `next_cursor` of the previous page. Send the same filters with it. */
                cursor?: components["parameters"]["Cursor"];
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A page of DSNs, newest first. */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DSNList"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["Unavailable"];
            504: components["responses"]["Timeout"];
        };
    };
    createDSN: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Makes retries safe: a repeat of this call within 24 hours has no further effect. It gets the response of the
                 *     first call, or for a sent event its current state, with `Idempotent-Replayed: true`. There are two
                 *     exceptions: with another API key, secrets in the response are masked; and if the fixture that the first call
                 *     made was deleted or has expired, or its event was erased, the repeat is answered with 404. 1 to 255 printable
                 *     ASCII characters, valid for this path. With another body the key is refused (`idempotency_mismatch`).
                 *
                 *     In a cluster, keys of sent events are as durable as its Redis: when that starts empty, a repeat stores a second
                 *     event. While Redis does not answer, a send with a key is answered 503 and stores nothing. A relay with its engines
                 *     inside keeps them in a file. Keys of other calls are durable.
                 */
                "Idempotency-Key"?: components["parameters"]["IdempotencyKey"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["DSNInput"];
            };
        };
        responses: {
            /** @description The DSN. */
            201: {
                headers: {
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    "Idempotent-Replayed": components["headers"]["Idempotent-Replayed"];
                    "Idempotency-Status": components["headers"]["Idempotency-Status"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DSN"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["Unavailable"];
            504: components["responses"]["Timeout"];
        };
    };
    readDSN: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                dsn_id: components["schemas"]["DSNId"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The DSN. */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DSN"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["Unavailable"];
            504: components["responses"]["Timeout"];
        };
    };
    deleteDSN: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                dsn_id: components["schemas"]["DSNId"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description It is deleted. */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Deleted"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["Unavailable"];
            504: components["responses"]["Timeout"];
        };
    };
    updateDSN: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                dsn_id: components["schemas"]["DSNId"];
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["DSNUpdate"];
            };
        };
        responses: {
            /** @description The changed DSN. */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DSN"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["Unavailable"];
            504: components["responses"]["Timeout"];
        };
    };
    rotateDSN: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Makes retries safe: a repeat of this call within 24 hours has no further effect. It gets the response of the
                 *     first call, or for a sent event its current state, with `Idempotent-Replayed: true`. There are two
                 *     exceptions: with another API key, secrets in the response are masked; and if the fixture that the first call
                 *     made was deleted or has expired, or its event was erased, the repeat is answered with 404. 1 to 255 printable
                 *     ASCII characters, valid for this path. With another body the key is refused (`idempotency_mismatch`).
                 *
                 *     In a cluster, keys of sent events are as durable as its Redis: when that starts empty, a repeat stores a second
                 *     event. While Redis does not answer, a send with a key is answered 503 and stores nothing. A relay with its engines
                 *     inside keeps them in a file. Keys of other calls are durable.
                 */
                "Idempotency-Key"?: components["parameters"]["IdempotencyKey"];
            };
            path: {
                dsn_id: components["schemas"]["DSNId"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The DSN with its new `dsn`. */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    "Idempotent-Replayed": components["headers"]["Idempotent-Replayed"];
                    "Idempotency-Status": components["headers"]["Idempotency-Status"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DSN"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["Unavailable"];
            504: components["responses"]["Timeout"];
        };
    };
    listScans: {
        parameters: {
            query?: {
                domain_id?: components["schemas"]["FilterValues"];
                /** @description Maximum number of rows on a page. Values above 100 count as 100. */
                limit?: components["parameters"]["Limit"];
                /** @description `next_cursor` of the previous page. Send the same filters with it. */
                cursor?: components["parameters"]["Cursor"];
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A page of scans, newest first. */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ScanList"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["Unavailable"];
            504: components["responses"]["Timeout"];
        };
    };
    createScan: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Makes retries safe: a repeat of this call within 24 hours has no further effect. It gets the response of the
                 *     first call, or for a sent event its current state, with `Idempotent-Replayed: true`. There are two
                 *     exceptions: with another API key, secrets in the response are masked; and if the fixture that the first call
                 *     made was deleted or has expired, or its event was erased, the repeat is answered with 404. 1 to 255 printable
                 *     ASCII characters, valid for this path. With another body the key is refused (`idempotency_mismatch`).
                 *
                 *     In a cluster, keys of sent events are as durable as its Redis: when that starts empty, a repeat stores a second
                 *     event. While Redis does not answer, a send with a key is answered 503 and stores nothing. A relay with its engines
                 *     inside keeps them in a file. Keys of other calls are durable.
                 */
                "Idempotency-Key"?: components["parameters"]["IdempotencyKey"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["ScanInput"];
            };
        };
        responses: {
            /** @description The scan, which is queued. */
            201: {
                headers: {
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    "Idempotent-Replayed": components["headers"]["Idempotent-Replayed"];
                    "Idempotency-Status": components["headers"]["Idempotency-Status"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Scan"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["Unavailable"];
            504: components["responses"]["Timeout"];
        };
    };
    readScan: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                scan_id: components["schemas"]["ScanId"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The scan. */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Scan"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["Unavailable"];
            504: components["responses"]["Timeout"];
        };
    };
    listTripwires: {
        parameters: {
            query?: {
                /** @description Only those of this domain. */
                domain_id?: components["schemas"]["DomainId"];
                /** @description Maximum number of rows on a page. Values above 100 count as 100. */
                limit?: components["parameters"]["Limit"];
                /** @description `next_cursor` of the previous page. Send the same filters with it. */
                cursor?: components["parameters"]["Cursor"];
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A page of tripwires, newest first, without their secrets. */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["TripwireList"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["Unavailable"];
            504: components["responses"]["Timeout"];
        };
    };
    createTripwire: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Makes retries safe: a repeat of this call within 24 hours has no further effect. It gets the response of the
                 *     first call, or for a sent event its current state, with `Idempotent-Replayed: true`. There are two
                 *     exceptions: with another API key, secrets in the response are masked; and if the fixture that the first call
                 *     made was deleted or has expired, or its event was erased, the repeat is answered with 404. 1 to 255 printable
                 *     ASCII characters, valid for this path. With another body the key is refused (`idempotency_mismatch`).
                 *
                 *     In a cluster, keys of sent events are as durable as its Redis: when that starts empty, a repeat stores a second
                 *     event. While Redis does not answer, a send with a key is answered 503 and stores nothing. A relay with its engines
                 *     inside keeps them in a file. Keys of other calls are durable.
                 */
                "Idempotency-Key"?: components["parameters"]["IdempotencyKey"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["TripwireInput"];
            };
        };
        responses: {
            /** @description The tripwire with its secrets. */
            201: {
                headers: {
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    "Idempotent-Replayed": components["headers"]["Idempotent-Replayed"];
                    "Idempotency-Status": components["headers"]["Idempotency-Status"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Tripwire"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["Unavailable"];
            504: components["responses"]["Timeout"];
        };
    };
    readTripwire: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                tripwire_id: components["schemas"]["TripwireId"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The tripwire, without its secrets. */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Tripwire"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["Unavailable"];
            504: components["responses"]["Timeout"];
        };
    };
    deleteTripwire: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                tripwire_id: components["schemas"]["TripwireId"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description It is deleted. */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Deleted"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["Unavailable"];
            504: components["responses"]["Timeout"];
        };
    };
    rotateTripwire: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Makes retries safe: a repeat of this call within 24 hours has no further effect. It gets the response of the
                 *     first call, or for a sent event its current state, with `Idempotent-Replayed: true`. There are two
                 *     exceptions: with another API key, secrets in the response are masked; and if the fixture that the first call
                 *     made was deleted or has expired, or its event was erased, the repeat is answered with 404. 1 to 255 printable
                 *     ASCII characters, valid for this path. With another body the key is refused (`idempotency_mismatch`).
                 *
                 *     In a cluster, keys of sent events are as durable as its Redis: when that starts empty, a repeat stores a second
                 *     event. While Redis does not answer, a send with a key is answered 503 and stores nothing. A relay with its engines
                 *     inside keeps them in a file. Keys of other calls are durable.
                 */
                "Idempotency-Key"?: components["parameters"]["IdempotencyKey"];
            };
            path: {
                tripwire_id: components["schemas"]["TripwireId"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The tripwire with its new secrets. */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    "Idempotent-Replayed": components["headers"]["Idempotent-Replayed"];
                    "Idempotency-Status": components["headers"]["Idempotency-Status"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Tripwire"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["Unavailable"];
            504: components["responses"]["Timeout"];
        };
    };
    testTripwire: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Makes retries safe: a repeat of this call within 24 hours has no further effect. It gets the response of the
                 *     first call, or for a sent event its current state, with `Idempotent-Replayed: true`. There are two
                 *     exceptions: with another API key, secrets in the response are masked; and if the fixture that the first call
                 *     made was deleted or has expired, or its event was erased, the repeat is answered with 404. 1 to 255 printable
                 *     ASCII characters, valid for this path. With another body the key is refused (`idempotency_mismatch`).
                 *
                 *     In a cluster, keys of sent events are as durable as its Redis: when that starts empty, a repeat stores a second
                 *     event. While Redis does not answer, a send with a key is answered 503 and stores nothing. A relay with its engines
                 *     inside keeps them in a file. Keys of other calls are durable.
                 */
                "Idempotency-Key"?: components["parameters"]["IdempotencyKey"];
            };
            path: {
                tripwire_id: components["schemas"]["TripwireId"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The tripwire, with `test_until`. */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    "Idempotent-Replayed": components["headers"]["Idempotent-Replayed"];
                    "Idempotency-Status": components["headers"]["Idempotency-Status"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Tripwire"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["Unavailable"];
            504: components["responses"]["Timeout"];
        };
    };
    listIssues: {
        parameters: {
            query?: {
                /** @description Only issues with one of these statuses, repeated or separated by commas. */
                status?: ("open" | "acknowledged" | "resolved")[];
                /** @description Only issues of these endpoints. */
                endpoint_id?: components["schemas"]["EndpointId"][];
                /** @description Only issues of these destinations. */
                destination_id?: components["schemas"]["DestinationId"][];
                /** @description Maximum number of rows on a page. Values above 100 count as 100. */
                limit?: components["parameters"]["Limit"];
                /** @description `next_cursor` of the previous page. Send the same filters with it. */
                cursor?: components["parameters"]["Cursor"];
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A page of issues, newest first. */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["IssueList"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["Unavailable"];
            504: components["responses"]["Timeout"];
        };
    };
    readIssue: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                issue_id: components["schemas"]["IssueId"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The issue. */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Issue"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["Unavailable"];
            504: components["responses"]["Timeout"];
        };
    };
    updateIssue: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                issue_id: components["schemas"]["IssueId"];
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["IssueInput"];
            };
        };
        responses: {
            /** @description The changed issue. */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Issue"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["Unavailable"];
            504: components["responses"]["Timeout"];
        };
    };
    readAlerts: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The settings. Webhook URLs are masked. */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AlertSettings"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["Unavailable"];
            504: components["responses"]["Timeout"];
        };
    };
    updateAlerts: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["AlertSettingsInput"];
            };
        };
        responses: {
            /** @description The settings after the change. */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AlertSettings"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["Unavailable"];
            504: components["responses"]["Timeout"];
        };
    };
    testAlerts: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Makes retries safe: a repeat of this call within 24 hours has no further effect. It gets the response of the
                 *     first call, or for a sent event its current state, with `Idempotent-Replayed: true`. There are two
                 *     exceptions: with another API key, secrets in the response are masked; and if the fixture that the first call
                 *     made was deleted or has expired, or its event was erased, the repeat is answered with 404. 1 to 255 printable
                 *     ASCII characters, valid for this path. With another body the key is refused (`idempotency_mismatch`).
                 *
                 *     In a cluster, keys of sent events are as durable as its Redis: when that starts empty, a repeat stores a second
                 *     event. While Redis does not answer, a send with a key is answered 503 and stores nothing. A relay with its engines
                 *     inside keeps them in a file. Keys of other calls are durable.
                 */
                "Idempotency-Key"?: components["parameters"]["IdempotencyKey"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description One result for each channel. */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    "Idempotent-Replayed": components["headers"]["Idempotent-Replayed"];
                    "Idempotency-Status": components["headers"]["Idempotency-Status"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AlertTestResult"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["Unavailable"];
            504: components["responses"]["Timeout"];
        };
    };
    listAlerts: {
        parameters: {
            query?: {
                state?: ("firing" | "resolved")[];
                rule?: ("delivery_failed" | "consecutive_failures" | "failure_rate" | "backlog_age" | "destination_state" | "verification_failed" | "usage" | "recovery" | "processing_missing" | "source_failing")[];
                /** @description Also: `endpoint`. */
                endpoint_id?: components["schemas"]["FilterValues"];
                /** @description Alerts of the endpoints of these tenants. */
                tenant?: components["schemas"]["FilterValues"];
                /** @description Maximum number of rows on a page. Values above 100 count as 100. */
                limit?: components["parameters"]["Limit"];
                /** @description `next_cursor` of the previous page. Send the same filters with it. */
                cursor?: components["parameters"]["Cursor"];
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A page of alerts. */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AlertList"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["Unavailable"];
            504: components["responses"]["Timeout"];
        };
    };
    listFindings: {
        parameters: {
            query?: {
                /** @description State of the finding. */
                status?: ("open" | "acknowledged" | "resolved" | "ignored")[];
                /** @description Severity of the finding. */
                severity?: ("critical" | "high" | "medium" | "low")[];
                /** @description A way by which at least one hit came. */
                source?: ("sdk" | "drain" | "scan" | "tripwire" | "event")[];
                /** @description What was found. */
                kind?: ("secret" | "exposed_file" | "tripwire")[];
                /** @description Id of the rule that found it. */
                rule?: components["schemas"]["FilterValues"];
                /** @description Findings whose last hit is at this time or later. */
                since?: components["schemas"]["FilterTime"];
                /** @description Findings whose last hit is before this time. A time in the future means now, and `since` must be before it. */
                until?: components["schemas"]["FilterTime"];
                /** @description Maximum number of rows on a page. Values above 100 count as 100. */
                limit?: components["parameters"]["Limit"];
                /** @description `next_cursor` of the previous page. Send the same filters with it. */
                cursor?: components["parameters"]["Cursor"];
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A page of findings. */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    "Relay-Data-As-Of": components["headers"]["Relay-Data-As-Of"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["FindingList"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["Unavailable"];
            504: components["responses"]["Timeout"];
        };
    };
    updateFindings: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Makes retries safe: a repeat of this call within 24 hours has no further effect. It gets the response of the
                 *     first call, or for a sent event its current state, with `Idempotent-Replayed: true`. There are two
                 *     exceptions: with another API key, secrets in the response are masked; and if the fixture that the first call
                 *     made was deleted or has expired, or its event was erased, the repeat is answered with 404. 1 to 255 printable
                 *     ASCII characters, valid for this path. With another body the key is refused (`idempotency_mismatch`).
                 *
                 *     In a cluster, keys of sent events are as durable as its Redis: when that starts empty, a repeat stores a second
                 *     event. While Redis does not answer, a send with a key is answered 503 and stores nothing. A relay with its engines
                 *     inside keeps them in a file. Keys of other calls are durable.
                 */
                "Idempotency-Key"?: components["parameters"]["IdempotencyKey"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["FindingsUpdate"];
            };
        };
        responses: {
            /** @description How many findings were changed. */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    "Idempotent-Replayed": components["headers"]["Idempotent-Replayed"];
                    "Idempotency-Status": components["headers"]["Idempotency-Status"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["FindingsUpdated"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["Unavailable"];
            504: components["responses"]["Timeout"];
        };
    };
    readFinding: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                finding_id: components["schemas"]["FindingId"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The finding. */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    "Relay-Data-As-Of": components["headers"]["Relay-Data-As-Of"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Finding"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["Unavailable"];
            504: components["responses"]["Timeout"];
        };
    };
    updateFinding: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                finding_id: components["schemas"]["FindingId"];
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["FindingChangeInput"];
            };
        };
        responses: {
            /** @description The finding after the change. If the store is unavailable, it shows the first hit only. */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    "Relay-Data-As-Of": components["headers"]["Relay-Data-As-Of"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Finding"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["Unavailable"];
            504: components["responses"]["Timeout"];
        };
    };
    listOccurrences: {
        parameters: {
            query?: {
                /** @description Maximum number of rows on a page. Values above 100 count as 100. */
                limit?: components["parameters"]["Limit"];
                /** @description `next_cursor` of the previous page. Send the same filters with it. */
                cursor?: components["parameters"]["Cursor"];
            };
            header?: never;
            path: {
                finding_id: components["schemas"]["FindingId"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A page of occurrences. */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    "Relay-Data-As-Of": components["headers"]["Relay-Data-As-Of"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["OccurrenceList"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["Unavailable"];
            504: components["responses"]["Timeout"];
        };
    };
    readDetection: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The rules. */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DetectionSettings"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["Unavailable"];
            504: components["responses"]["Timeout"];
        };
    };
    updateDetection: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["DetectionSettingsInput"];
            };
        };
        responses: {
            /** @description The changed rules. */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DetectionSettings"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["Unavailable"];
            504: components["responses"]["Timeout"];
        };
    };
    tryDetection: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": {
                    /** @description Log lines, for example. */
                    text: string;
                    /** @description Rules to try in place of the saved ones; `null`: none. */
                    rules?: components["schemas"]["DetectionRuleInput"][] | null;
                };
            };
        };
        responses: {
            /** @description What was found. */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DetectionTry"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["Unavailable"];
            504: components["responses"]["Timeout"];
        };
    };
    listFixtures: {
        parameters: {
            query?: {
                /** @description Maximum number of rows on a page. Values above 100 count as 100. */
                limit?: components["parameters"]["Limit"];
                /** @description `next_cursor` of the previous page. Send the same filters with it. */
                cursor?: components["parameters"]["Cursor"];
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A page of fixtures, newest first. */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["FixtureSummaryList"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["Unavailable"];
            504: components["responses"]["Timeout"];
        };
    };
    createFixture: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Makes retries safe: a repeat of this call within 24 hours has no further effect. It gets the response of the
                 *     first call, or for a sent event its current state, with `Idempotent-Replayed: true`. There are two
                 *     exceptions: with another API key, secrets in the response are masked; and if the fixture that the first call
                 *     made was deleted or has expired, or its event was erased, the repeat is answered with 404. 1 to 255 printable
                 *     ASCII characters, valid for this path. With another body the key is refused (`idempotency_mismatch`).
                 *
                 *     In a cluster, keys of sent events are as durable as its Redis: when that starts empty, a repeat stores a second
                 *     event. While Redis does not answer, a send with a key is answered 503 and stores nothing. A relay with its engines
                 *     inside keeps them in a file. Keys of other calls are durable.
                 */
                "Idempotency-Key"?: components["parameters"]["IdempotencyKey"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["FixtureChangeInput"];
            };
        };
        responses: {
            /** @description The fixture. */
            201: {
                headers: {
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    "Idempotent-Replayed": components["headers"]["Idempotent-Replayed"];
                    "Idempotency-Status": components["headers"]["Idempotency-Status"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Fixture"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["Unavailable"];
            504: components["responses"]["Timeout"];
        };
    };
    exportFixtures: {
        parameters: {
            query: {
                /** @description Ids of fixtures, repeated or separated by commas, each once. */
                ids: components["schemas"]["FixtureId"][];
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The file. */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    "Content-Disposition": components["headers"]["Content-Disposition"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["FixtureSuite"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["Unavailable"];
            504: components["responses"]["Timeout"];
        };
    };
    readFixture: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                fixture_id: components["schemas"]["FixtureId"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The fixture. */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Fixture"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["Unavailable"];
            504: components["responses"]["Timeout"];
        };
    };
    deleteFixture: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                fixture_id: components["schemas"]["FixtureId"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description It is deleted. */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Deleted"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["Unavailable"];
            504: components["responses"]["Timeout"];
        };
    };
    updateFixture: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                fixture_id: components["schemas"]["FixtureId"];
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["FixtureChangeUpdate"];
            };
        };
        responses: {
            /** @description The changed fixture. */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Fixture"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["Unavailable"];
            504: components["responses"]["Timeout"];
        };
    };
    readOverview: {
        parameters: {
            query?: {
                range?: "15m" | "1h" | "6h" | "24h" | "7d" | "30d";
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The overview. */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    "Relay-Data-As-Of": components["headers"]["Relay-Data-As-Of"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Overview"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["Unavailable"];
            504: components["responses"]["Timeout"];
        };
    };
    readTraffic: {
        parameters: {
            query?: {
                range?: "15m" | "1h" | "6h" | "24h" | "7d" | "30d";
            };
            header?: never;
            path: {
                endpoint_id: components["schemas"]["EndpointId"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The traffic by destination. */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    "Relay-Data-As-Of": components["headers"]["Relay-Data-As-Of"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["EndpointTraffic"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["Unavailable"];
            504: components["responses"]["Timeout"];
        };
    };
    readUsage: {
        parameters: {
            query?: {
                /** @description A calendar month in UTC, such as `2026-10`. The default is this month. Months are kept for 400 days: one that began earlier is refused, as is one that has not begun. The projection of a month that has ended is what was used, and the answer may be ten seconds old; `allowance` is always that of now. */
                period?: string;
                /** @description The usage of the endpoints of this tenant, with its allowance. */
                tenant?: components["schemas"]["TenantName"];
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The usage of the calendar month in UTC. Nothing is refused above the allowance. */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Usage"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["Unavailable"];
            504: components["responses"]["Timeout"];
        };
    };
    readDailyUsage: {
        parameters: {
            query?: {
                /** @description The usage of the endpoints of this tenant. */
                tenant?: components["schemas"]["TenantName"];
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The usage of the last 30 days in UTC, today included, by day, and by endpoint and day. */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UsageDays"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["Unavailable"];
            504: components["responses"]["Timeout"];
        };
    };
    readMe: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The key, its account and its scope. */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Me"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["Unavailable"];
            504: components["responses"]["Timeout"];
        };
    };
    listAudit: {
        parameters: {
            query?: {
                /** @description Id of an API key or a user, or a type of actor such as `operator`. */
                actor?: components["schemas"]["FilterValues"];
                /** @description An action such as `endpoint.updated`, or a prefix such as `endpoint.*`. */
                action?: string[];
                /** @description Id of the changed entity, or of one that the change is related to. */
                entity_id?: components["schemas"]["FilterValues"];
                /** @description Changes of these tenants, of their endpoints and of the destinations of these. */
                tenant?: components["schemas"]["FilterValues"];
                /** @description Entries at this time or later. */
                since?: components["schemas"]["FilterTime"];
                /** @description Entries before this time. A time in the future means now, and `since` must be before it. */
                until?: components["schemas"]["FilterTime"];
                /** @description Maximum number of rows on a page. Values above 100 count as 100. */
                limit?: components["parameters"]["Limit"];
                /** @description `next_cursor` of the previous page. Send the same filters with it. */
                cursor?: components["parameters"]["Cursor"];
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A page of entries, newest first. */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    "X-RateLimit-Limit": components["headers"]["X-RateLimit-Limit"];
                    "X-RateLimit-Remaining": components["headers"]["X-RateLimit-Remaining"];
                    "X-RateLimit-Reset": components["headers"]["X-RateLimit-Reset"];
                    "Relay-Data-As-Of": components["headers"]["Relay-Data-As-Of"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuditEntryList"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalError"];
            503: components["responses"]["Unavailable"];
            504: components["responses"]["Timeout"];
        };
    };
    checkHealth: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The process runs. */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Health"];
                };
            };
        };
    };
    checkReadiness: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The node can serve requests. Without the store, which is not `required`, it answers lists, searches and reads of events with 503. */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Readiness"];
                };
            };
            /** @description A part that the node needs is unavailable, or the node is about to stop. `checks` names it (`stopping`). */
            503: {
                headers: {
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Readiness"];
                };
            };
        };
    };
    listPublicKeys: {
        parameters: {
            query?: {
                /** @description Only keys of this endpoint. Default: those of all, refused when there are more than 1000. */
                endpoint_id?: components["schemas"]["EndpointId"];
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The keys. */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["KeySet"];
                };
            };
            400: components["responses"]["BadRequest"];
            404: components["responses"]["NotFound"];
        };
    };
    readOpenAPIAsJSON: {
        parameters: {
            query?: never;
            header?: {
                /** @description `ETag` of an earlier response; 304 if it is still current. */
                "If-None-Match"?: components["parameters"]["IfNoneMatch"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The OpenAPI document. */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    ETag: components["headers"]["ETag"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        [key: string]: unknown;
                    };
                };
            };
            /** @description It has not changed. */
            304: {
                headers: {
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    ETag: components["headers"]["ETag"];
                    [name: string]: unknown;
                };
                content?: never;
            };
            429: components["responses"]["TooManyRequests"];
        };
    };
    readOpenAPICompat: {
        parameters: {
            query?: never;
            header?: {
                /** @description `ETag` of an earlier response; 304 if it is still current. */
                "If-None-Match"?: components["parameters"]["IfNoneMatch"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The OpenAPI document in version 3.0. */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    ETag: components["headers"]["ETag"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        [key: string]: unknown;
                    };
                };
            };
            /** @description It has not changed. */
            304: {
                headers: {
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    ETag: components["headers"]["ETag"];
                    [name: string]: unknown;
                };
                content?: never;
            };
            429: components["responses"]["TooManyRequests"];
        };
    };
    readOpenAPIAsYAML: {
        parameters: {
            query?: never;
            header?: {
                /** @description `ETag` of an earlier response; 304 if it is still current. */
                "If-None-Match"?: components["parameters"]["IfNoneMatch"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The OpenAPI document. */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    ETag: components["headers"]["ETag"];
                    [name: string]: unknown;
                };
                content: {
                    "application/yaml": {
                        [key: string]: unknown;
                    };
                };
            };
            /** @description It has not changed. */
            304: {
                headers: {
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    ETag: components["headers"]["ETag"];
                    [name: string]: unknown;
                };
                content?: never;
            };
            429: components["responses"]["TooManyRequests"];
        };
    };
    readDeprecations: {
        parameters: {
            query?: never;
            header?: {
                /** @description `ETag` of an earlier response; 304 if it is still current. */
                "If-None-Match"?: components["parameters"]["IfNoneMatch"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The page as HTML. */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    ETag: components["headers"]["ETag"];
                    [name: string]: unknown;
                };
                content: {
                    "text/html": string;
                };
            };
            /** @description It has not changed. */
            304: {
                headers: {
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    ETag: components["headers"]["ETag"];
                    [name: string]: unknown;
                };
                content?: never;
            };
            429: components["responses"]["TooManyRequests"];
        };
    };
    readErrorTypes: {
        parameters: {
            query?: never;
            header?: {
                /** @description `ETag` of an earlier response; 304 if it is still current. */
                "If-None-Match"?: components["parameters"]["IfNoneMatch"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The page as HTML. */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    ETag: components["headers"]["ETag"];
                    [name: string]: unknown;
                };
                content: {
                    "text/html": string;
                };
            };
            /** @description It has not changed. */
            304: {
                headers: {
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    ETag: components["headers"]["ETag"];
                    [name: string]: unknown;
                };
                content?: never;
            };
            429: components["responses"]["TooManyRequests"];
        };
    };
    receiveDelivery: {
        parameters: {
            query?: never;
            header: {
                /**
                 * @description The event's id, the same in every attempt and replay. Use it to recognise repeats. If the provider sent `webhook-id` or `webhook-signature` itself, this and the next two headers are passed on as received.
                 * @example evt_01J8ZQ4T4N3M8X7Q2V5K6W9Y0A
                 */
                "webhook-id"?: string;
                /**
                 * @description Time of the attempt, in Unix seconds.
                 * @example 1795348800
                 */
                "webhook-timestamp"?: string;
                /**
                 * @description `v1,` and the base64 of the HMAC-SHA256 of `id.timestamp.body`. While a secret is being rotated there are two, separated by a space.
                 * @example v1,K5oZfzN95Z9UVu1EsfQmfVNQhnkZ2pj9o9NDN/H/pI4=
                 */
                "webhook-signature"?: string;
                /**
                 * @description Always the event's id.
                 * @example evt_01J8ZQ4T4N3M8X7Q2V5K6W9Y0A
                 */
                "relay-webhook-id": string;
                /**
                 * @description Always the time of the attempt.
                 * @example 1795348800
                 */
                "relay-webhook-timestamp": string;
                /**
                 * @description Always the signature with the destination's secret.
                 * @example v1,K5oZfzN95Z9UVu1EsfQmfVNQhnkZ2pj9o9NDN/H/pI4=
                 */
                "relay-webhook-signature": string;
                /**
                 * @description The endpoint that received the event.
                 * @example ep_01J8ZQ4T4N3M8X7Q2V5K6W9Y0A
                 */
                "relay-endpoint-id": string;
                /**
                 * @description The destination of this delivery.
                 * @example dst_01J8ZQ4T4N3M8X7Q2V5K6W9Y0A
                 */
                "relay-destination-id": string;
                /**
                 * @description The event's delivery to this destination, the same in every attempt and replay.
                 * @example dlv_01J8ZQ4T4N3M8X7Q2V5K6W9Y0A
                 */
                "relay-delivery-id": string;
                /**
                 * @description Number of the attempt. A replay starts at 1 again.
                 * @example 1
                 */
                "relay-attempt": number;
                /**
                 * @description Why this attempt was made.
                 * @example initial
                 */
                "relay-trigger": string;
                /**
                 * @description Result for the provider's signature: `verified`, it is valid; `observed`, it is invalid or missing and the endpoint only observes; `unverified`, it was not checked; `sent`, the event was sent through this API.
                 * @example verified
                 */
                "relay-verification": string;
                /**
                 * @description How many relays have delivered the event, this delivery included. An event that arrives with 5 is stored as `skipped` (`delivery_loop`).
                 * @example 1
                 */
                "relay-hops": number;
                /**
                 * @description The endpoints that the event has passed through, separated by commas, this one last. An event that returns to one of them for the second time is stored as `skipped` (`delivery_loop`).
                 * @example ep_01J8ZQ4T4N3M8X7Q2V5K6W9Y0A
                 */
                "relay-path": string;
                /**
                 * @description The OpenTelemetry span of the attempt (W3C Trace Context), if the operator has traces on and the event is traced. Otherwise a header that the provider sent.
                 * @example 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01
                 */
                traceparent?: string;
            };
            path?: never;
            cookie?: never;
        };
        /** @description The body as received from the provider, or the envelope of a sent event. */
        requestBody?: {
            content: {
                "*/*": unknown;
            };
        };
        responses: {
            /** @description Delivered. */
            "2XX": {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    receiveAlert: {
        parameters: {
            query?: never;
            header: {
                /**
                 * @description `id` of the body, the same in every attempt. Use it to recognise repeats.
                 * @example alrt_5fs79an8v3abzktm77sdk2wsmj
                 */
                "webhook-id": string;
                /**
                 * @description Time of the attempt, in Unix seconds.
                 * @example 1795348800
                 */
                "webhook-timestamp": string;
                /**
                 * @description `v1,` and the base64 of the HMAC-SHA256 of `id.timestamp.body`.
                 * @example v1,K5oZfzN95Z9UVu1EsfQmfVNQhnkZ2pj9o9NDN/H/pI4=
                 */
                "webhook-signature": string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": {
                    /** @example alrt_5fs79an8v3abzktm77sdk2wsmj */
                    id: string;
                    /** @description What happened. A type that ends in `.resolved` says that the alert is over. */
                    type: string;
                    /** Format: date-time */
                    timestamp: string;
                    data: {
                        endpoint_id: string | null;
                        destination_id: string | null;
                        /**
                         * @description The rule of `/v1/alerts` that fired; `test` for a test.
                         * @example failure_rate
                         */
                        rule: string;
                        /**
                         * @description What the rule found, a number, text or `null`: a number in the unit of the threshold, of events for `alert.processing.missing`; the severity of a finding; the state of a recovery job; why a source cannot be read; or the reason or state of a delivery or destination, such as `attempts_exhausted`. `null` in a test.
                         * @example 100
                         */
                        value: unknown;
                        /**
                         * @description The value from which the rule fires, a number, text or `null`: a number, or the lowest severity of a finding. `null` for rules without one.
                         * @example 50
                         */
                        threshold: unknown;
                        /** @description Only in `alert.destination.backlog`: the event that has waited longest, or the one that blocks it in the order of its destination. */
                        event_id?: string;
                        /** @description Only in messages about one finding or tripwire. */
                        finding_id?: string;
                        /** @description Only in `alert.tripwire.tripped`. */
                        tripwire_id?: string;
                        /** @description The number of findings, only in `alert.finding.many`. */
                        count?: number;
                        /**
                         * Format: uri
                         * @description The page with the details.
                         */
                        dashboard_url: string;
                    };
                };
            };
        };
        responses: {
            /** @description Received. */
            "2XX": {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
}
type WithRequired<T, K extends keyof T> = T & {
    [P in K]-?: T[P];
};
