type t = {
  id : int64;
  payload : string;
  is_text : bool;
  correlation_id : string;
  reply_to : string;
  redelivered : bool;
  task_id : string;
  origin : string;
}

let of_json : Json.t -> t = function
  | `List [ id; fields ] ->
      let fields = Read.obj fields in
      let text name = Option.fold ~none:"" ~some:Read.string (Json.find fields name) in
      {
        id = Read.int64 id;
        payload = Read.field fields "payload" Read.string;
        is_text = text "encoding" = "";
        correlation_id =
          (match Json.find fields "correlation_id" with
          | Some (`Int number) -> string_of_int number
          | Some (`Intlit digits) -> digits
          | _ -> "0");
        reply_to = text "reply_to";
        redelivered = Json.find fields "redelivered" = Some (`Bool true);
        task_id = text "task_id";
        origin = text "origin";
      }
  | _ -> Json.wrong "a message is an id and an object"

let decoded each =
  if each.is_text then each
  else
    match Base64.decode each.payload with
    | Ok payload -> { each with payload }
    | Error (`Msg said) -> Json.wrong "payload: %s" said

let of_transfer body =
  let fields = Read.obj (Json.of_string body) in
  List.map decoded (Read.field fields "messages" (Read.array of_json))
